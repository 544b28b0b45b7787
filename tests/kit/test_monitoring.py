"""Rules and dashboard of the monitoring add-ons, judged by promtool and held against recorded metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from debian_image import unpack
from planned import KIT, ROOT
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

CASES = Path(__file__).parent.parent / "cases"
ADDONS = ROOT / "compose" / "addons"
RULES = yaml.safe_load((ADDONS / "monitoring" / "rules.yml").read_text())
DASHBOARD: dict[str, Any] = json.loads((ADDONS / "dashboard" / "stack.json").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
RECORDED = ("metrics-ar.txt", "metrics-dflash-after-t1.txt")
_NAME = re.compile(r"\b(?:sglang:\w+|kitctl_\w+|DCGM_\w+)")


@pytest.fixture(scope="session")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """promtool of Debian's prometheus."""
    return unpack("prometheus", tmp_path_factory.mktemp("promtool")) / "usr/bin/promtool"


def judge(promtool: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The rules beside their tests."""
    shutil.copy(ADDONS / "monitoring" / "rules.yml", tmp_path)
    shutil.copy(CASES / "monitoring" / "rules_test.yml", tmp_path)
    return tmp_path


def test_prometheus_accepts_configuration_and_rules(promtool: Path, folder: Path) -> None:
    config = (ADDONS / "monitoring" / "prometheus.yml").read_text()
    (folder / "prometheus.yml").write_text(config.replace("/etc/kitctl", str(folder)))
    done = judge(promtool, "check", "config", "prometheus.yml", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_must_and_only_then(promtool: Path, folder: Path) -> None:
    done = judge(promtool, "test", "rules", "rules_test.yml", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_the_tests_notice_an_alert_that_never_fires(alert: str, promtool: Path, folder: Path) -> None:
    tree = yaml.safe_load((folder / "rules.yml").read_text())
    for rule in tree["groups"][0]["rules"]:
        if rule["alert"] == alert:
            rule["expr"] = "vector(1) > 2"
    (folder / "rules.yml").write_text(yaml.safe_dump(tree))
    done = judge(promtool, "test", "rules", "rules_test.yml", folder=folder)
    assert done.returncode != 0 and f"alertname: {alert}" in done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_what_is_wrong_and_what_to_do(alert: str) -> None:
    rule = ALERTS[alert]
    assert set(rule["annotations"]) == {"summary", "do"}
    assert rule["labels"]["severity"] in ("critical", "warning")


def recorded_names() -> set[str]:
    """Names of metrics that real engines of the pin set gave: with a drafter and without one."""
    found = set()
    for name in RECORDED:
        text = (CASES / "bench" / name).read_text()
        for family in text_string_to_metric_families(text):
            found |= {sample.name for sample in family.samples}
    return found


def expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [*panels, *(rule["expr"] for rule in ALERTS.values())]


def test_rules_and_panels_name_metrics_that_the_engine_gives() -> None:
    known = recorded_names()
    found = {name for text in expressions() for name in _NAME.findall(text) if name.startswith("sglang:")}
    named = {name.replace("_bucket", "_count") for name in found}  # the recordings leave buckets out
    assert len(named) > 15
    assert named - known == set()


def test_rules_and_panels_name_numbers_that_kitctl_and_the_exporter_give() -> None:
    fields = (ADDONS / "monitoring" / "dcgm-counters.csv").read_text()
    exported = set(re.findall(r"^(DCGM_\w+),", fields, re.MULTILINE))
    named = {name for text in expressions() for name in _NAME.findall(text)}
    assert {name for name in named if name.startswith("DCGM_")} <= exported
    kitctl = {"kitctl_phase_seconds", "kitctl_accept_length_min", "kitctl_accept_length_max"}
    assert {name for name in named if name.startswith("kitctl_")} == kitctl


def test_panels_lie_side_by_side_and_ask_the_provisioned_source() -> None:
    source = yaml.safe_load((ADDONS / "dashboard" / "datasource.yml").read_text())["datasources"][0]
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken
        taken |= cells
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {source["uid"]}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_grafana_finds_what_it_is_given() -> None:
    overlay = yaml.safe_load(KIT.overlays["dashboard"].text)
    grafana = overlay["services"]["grafana"]
    targets = {config["source"]: config["target"] for config in grafana["configs"]}
    provider = yaml.safe_load((ADDONS / "dashboard" / "provider.yml").read_text())["providers"][0]
    assert targets["dashboard-stack.json"] == f"{provider['options']['path']}/stack.json"
    assert (
        grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == targets["dashboard-stack.json"]
    )
    assert set(targets) == set(KIT.overlays["dashboard"].files)


PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"  # noqa: E501  # as Prometheus 2.42 sends it


def test_names_that_come_without_their_colon_are_those_of_the_rules() -> None:
    """What the engine's own metrics library answers to Prometheus 2, and what the scrape makes of it."""
    registry = CollectorRegistry()
    Gauge("sglang:num_running_reqs", "Running.", registry=registry).set(1)
    encode, _ = choose_encoder(PROMETHEUS_2)
    (line,) = [one for one in encode(registry).decode().splitlines() if not one.startswith("#")]
    config = yaml.safe_load((ADDONS / "monitoring" / "prometheus.yml").read_text())
    (engine,) = [job for job in config["scrape_configs"] if job["job_name"] == "engine"]
    (rule,) = engine["metric_relabel_configs"]
    name = line.split()[0]
    found = re.sub(f"^{rule['regex']}$", rule["replacement"].replace("$", "\\"), name)
    assert (name, found) == ("sglang_num_running_reqs", "sglang:num_running_reqs")
