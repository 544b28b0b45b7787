"""What add-ons bring beside the engine, and what a port for clients must have."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from planned import planned, rendered

from kitctl.errors import KitError
from kitctl.finding import Severity
from kitctl.plan.addons import check_addon_images
from kitctl.plan.own_checks import check_plan
from kitctl.plan.types import Plan

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
    assert overlay["services"]["engine"]["networks"] == ["inner"]
    assert overlay["networks"]["inner"] == {"internal": True}
    assert {"gateway-haproxy.cfg", "gateway-routes.lst"} <= set(files)


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
