"""What add-ons bring beside the engine, and what a port for clients must have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from planned import PCIE, host, planned, rendered

from kitctl.errors import KitError
from kitctl.finding import Severity
from kitctl.plan.addons import check_addon_images
from kitctl.plan.own_checks import check_plan
from kitctl.plan.types import Plan
from kitctl.render.as_planned import require_as_planned

KEYS = {"api_key_file": "/key", "tls_cert_file": "/c.pem", "tls_key_file": "/k.pem"}


def gateway(**more: Any) -> Plan:
    return planned("cpu-demo", addons=("gateway",), bind="10.0.0.7", **more)


def test_the_gateway_takes_the_address_and_the_engine_keeps_loopback() -> None:
    plan = gateway(port=4000, settings=(("serve.ports.gateway", 443),), **KEYS)
    ports = {one.name: (one.bind, one.port, one.container_port) for one in plan.endpoints}
    assert ports == {"gateway": ("10.0.0.7", 443, 8443), "operator": ("127.0.0.1", 4000, 30000)}
    assert (plan.published.bind, plan.published.port) == ("127.0.0.1", 4000)
    assert check_plan(plan) == ()


def test_the_engine_publishes_nothing_and_is_on_the_inner_network_alone() -> None:
    files = rendered(gateway(**KEYS))
    stack = yaml.safe_load(files["stack.yaml"])["services"]
    overlay = yaml.safe_load(files["overlay-gateway.yaml"])
    assert "ports" not in stack["engine"]
    assert [(p["host_ip"], p["published"]) for p in stack["gateway"]["ports"]] == [
        ("10.0.0.7", "8443"),
        ("127.0.0.1", "30001"),
    ]
    assert stack["engine"]["networks"] == ["inner"]
    assert overlay["networks"]["inner"] == {"internal": True}
    assert {"gateway-haproxy.cfg", "gateway-routes.lst"} <= set(files)


def test_monitoring_alone_leaves_the_engine_its_port_and_the_gateways_isolation_holds_with_it() -> None:
    alone = planned("cpu-demo", addons=("monitoring",))
    engine = yaml.safe_load(rendered(alone)["stack.yaml"])["services"]["engine"]
    assert (engine["networks"], len(engine["ports"])) == (["default", "inner"], 1)
    both = planned("cpu-demo", addons=("monitoring", "gateway"), **KEYS)
    engine = yaml.safe_load(rendered(both)["stack.yaml"])["services"]["engine"]
    assert (engine["networks"], "ports" in engine) == (["inner"], False)


def test_what_watches_gpus_runs_where_some_are_reserved_and_sees_those_alone() -> None:
    on_cpu, on_gpus = (
        planned("cpu-demo", addons=("monitoring",)),
        planned("tp8", host(PCIE), addons=("monitoring",)),
    )
    assert "dcgm" not in {service.name for service in on_cpu.addon_services}
    off = yaml.safe_load(rendered(on_cpu)["stack.yaml"])["services"]["dcgm"]
    assert off == {"image": "none", "profiles": ["off"]}
    services = yaml.safe_load(rendered(on_gpus)["stack.yaml"])["services"]
    assert services["dcgm"]["deploy"] == services["engine"]["deploy"]
    assert "deploy" not in services["prometheus"]


def test_a_dashboard_without_monitoring_is_refused_with_the_words_to_type() -> None:
    with pytest.raises(KitError) as refused:
        planned("cpu-demo", addons=("dashboard",))
    assert (refused.value.code, refused.value.remedy) == ("addon-alone", "--add monitoring --add dashboard")


@pytest.mark.docker
def test_compose_merges_every_addon_as_planned(tmp_path: Path) -> None:
    """``docker compose config`` needs the docker command and no engine."""
    for name, plan in {
        "cpu": planned("cpu-demo", addons=("monitoring", "gateway"), **KEYS),
        "gpus": planned("tp8", host(PCIE), addons=("monitoring", "gateway"), **KEYS),
        "cdi": planned("tp8", host(PCIE, driver="cdi"), addons=("monitoring", "dashboard")),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        for file, text in {**rendered(plan), "api-key": "k", "tls.pem": "t", "serve_with_key.py": ""}.items():
            (folder / file).write_text(text)
        argv = ["docker", "compose", "--project-directory", str(folder), "config", "--format", "json"]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        merged = json.loads(done.stdout)
        require_as_planned(merged, plan)
        assert merged["networks"]["inner"]["internal"] is True
        for service in merged["services"].values():
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
            assert service["security_opt"] == ["no-new-privileges:true"]


def test_without_key_and_certificate_it_is_refused() -> None:
    found = {one.code: one.severity for one in check_plan(gateway())}
    assert found == {"gateway-without-key": Severity.BLOCK, "gateway-without-certificate": Severity.BLOCK}


@pytest.mark.parametrize("missing", ["tls_cert_file", "tls_key_file"])
def test_half_a_certificate_is_none(missing: str) -> None:
    plan = gateway(**{name: path for name, path in KEYS.items() if name != missing})
    assert [one.code for one in check_plan(plan)] == ["gateway-without-certificate"]


def test_an_image_that_is_missing_blocks_and_one_that_is_not_pinned_is_told() -> None:
    plan = gateway(**KEYS)
    (service,) = plan.addon_services
    for present, codes in (
        ({service.image: True}, ["addon-image-unlocked"]),
        ({service.image: False}, ["addon-image-missing", "addon-image-unlocked"]),
        ({}, ["addon-image-unlocked"]),
    ):
        assert [one.code for one in check_addon_images(plan, present)] == codes


def test_a_port_that_no_addon_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(KitError) as refused:
        gateway(settings=(("serve.ports.gatewey", 443),))
    assert (refused.value.code, refused.value.evidence) == ("unknown-port", ("did you mean 'gateway'?",))


def test_another_port_is_another_plan() -> None:
    from kitctl.render.compose import fingerprint

    assert fingerprint(gateway(**KEYS)) != fingerprint(
        gateway(settings=(("serve.ports.gateway", 443),), **KEYS)
    )
    assert fingerprint(gateway(**KEYS)) != fingerprint(planned("cpu-demo", api_key_file="/key"))
