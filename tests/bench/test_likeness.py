"""What differs beside the stack is told where both heads tell it, and nothing is told where one does not."""

from typing import Any

import pytest
from planted import planted_result

from kitctl.bench.likeness import hardware_of, model_of, unlike
from kitctl.bench.results import Head
from kitctl.bench.workload import Endpoint, Spec

PUBLISHED = {
    "kind": "published",
    "source": "Kimi-K2.6 on 8x RTX PRO 6000 Blackwell (PCIe), tensor parallel 8",
}
CPU = {"served_models": ("demo",), "server": {"device": "cpu", "version": "0.5.16"}}


def record(*names: str, pins: str = "a" * 64) -> dict[str, Any]:
    gpus = [{"index": number, "name": name} for number, name in enumerate(names)]
    plan = {"gpus": {"indices": [gpu["index"] for gpu in gpus]}, "image": {"pins_hash": pins}}
    return {"run_record": {"facts": {"gpus": gpus}, "plan": plan}}


@pytest.mark.parametrize(
    ("left", "right", "codes"),
    [
        (PUBLISHED, CPU, ["other-model", "other-hardware"]),
        (PUBLISHED, {"served_models": ("kimi-k2.6",)}, []),
        (CPU, {}, []),
        (CPU, {**CPU, "server": {"device": "cpu", "version": "0.5.23"}}, ["other-engine"]),
        (record("H200"), record("H200", "H200"), ["other-hardware"]),
        (record("H200"), record("B200", pins="b" * 64), ["other-hardware", "other-engine"]),
        (record("H200"), {"run_record": {"facts": [], "plan": {"gpus": 8, "image": None}}}, []),
    ],
)
def test_what_differs(left: dict[str, Any], right: dict[str, Any], codes: list[str]) -> None:
    results = [planted_result("a", {1: 1}, **left), planted_result("b", {1: 1}, **right)]
    assert [note.code for note in unlike(results)] == codes
    assert unlike(results[:1]) == ()


def test_names() -> None:
    spec = Spec(model="org/m", endpoint=Endpoint.COMPLETIONS, dataset="random")
    assert model_of(Head(label="x", spec=spec, served_models=("other",))) == "m"
    assert model_of(Head(label="x", server={"model_path": f"/models/m/snapshots/{'0' * 40}"})) is None
    assert hardware_of(Head(label="x", **record("H200", "H200", "B200"))) == "2x H200 and 1x B200"
