"""A run's numbers in Prometheus' text format."""

from __future__ import annotations

from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from kitctl.edge.run_metrics import metrics_text
from kitctl.watch.run_record import Outcome, PhaseTime, RunRecord

RECORD = RunRecord(
    id="20261129T200000Z-kitctl-ep4-dflash-abcd",
    stack="ep4-dflash",
    project="kitctl-ep4-dflash",
    fingerprint="0123456789abcdef",
    kitctl="0.1.0",
    command=("up", "ep4-dflash"),
    started="2026-11-29T20:00:00.000Z",
    outcome=Outcome.STARTING,
    url="http://127.0.0.1:30001",
    served_model="kimi-k2.6",
    plan={"settings": {"expect": {"accept_length_min": 2.5, "accept_length_max": 8.0}}},
    facts={},
    phases=(PhaseTime(name="image", seconds=1.25), PhaseTime(name="weights", seconds=300.0)),
)


def read(record: RunRecord) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Samples by name, then by the labels beside stack and project."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(metrics_text(record)):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("stack"), labels.pop("project")) == (record.stack, record.project)
            found.setdefault(sample.name, {})[tuple(sorted(labels.items()))] = sample.value
    return found


def test_a_start_tells_its_phases_and_what_the_stack_expects() -> None:
    found = read(RECORD)
    assert found["kitctl_phase_seconds"] == {(("phase", "image"),): 1.25, (("phase", "weights"),): 300.0}
    assert found["kitctl_started_timestamp_seconds"] == {(): 1795982400.0}
    assert (found["kitctl_accept_length_min"], found["kitctl_accept_length_max"]) == ({(): 2.5}, {(): 8.0})
    assert [labels for labels, value in found["kitctl_run_outcome"].items() if value] == [
        (("outcome", "starting"),)
    ]
    assert "kitctl_ready_timestamp_seconds" not in found


def test_a_ready_run_tells_when_and_how_many_tokens_fit() -> None:
    more: dict[str, Any] = {"outcome": Outcome.READY, "ready": "2026-11-29T20:05:00.500Z", "kv_tokens": 65536}
    found = read(msgspec.structs.replace(RECORD, **more))
    assert found["kitctl_ready_timestamp_seconds"] == {(): 1795982700.5}
    assert found["kitctl_kv_tokens"] == {(): 65536.0}
    (info,) = found["kitctl_run_info"]
    assert dict(info)["model"] == "kimi-k2.6"


def test_a_stack_without_a_drafter_expects_nothing_of_one() -> None:
    found = read(msgspec.structs.replace(RECORD, plan={"settings": {"expect": {}}}))
    assert not [name for name in found if "accept" in name]
