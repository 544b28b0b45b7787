"""Accept lengths equal the engine's own fields, and broken drafters are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from kitctl.bench.acceptance import Sample, acceptance_of, judge, position_rates, sample_of
from kitctl.bench.answers import Record
from kitctl.bench.prompts import Prompt

CASES = Path(__file__).parent.parent / "cases" / "bench"


def sample(meta: dict[str, Any], tokens: int) -> Sample | None:
    record = Record(request=0, stream=0, begun_ns=0, sent_ns=0, end_ns=1, output_tokens=tokens, meta=meta)
    return sample_of(record, Prompt(id="p", category="code", text="x"))


def real(name: str) -> tuple[Sample, dict[str, Any]]:
    meta = json.loads((CASES / name).read_text())["response"]["meta_info"]
    found = sample(meta, meta["completion_tokens"])
    assert found is not None
    return found, meta


@pytest.mark.parametrize("name", ["generate-dflash-t0.json", "generate-dflash-t1.json"])
def test_equals_the_engines_fields(name: str) -> None:
    found, meta = real(name)
    acceptance = acceptance_of([found], concurrency=1)
    assert acceptance.overall.accept_length == meta["spec_accept_length"]
    assert acceptance.accept_rate == meta["spec_accept_rate"]
    assert acceptance.histogram == tuple(meta["spec_correct_drafts_histogram"])
    assert acceptance.accept_length_by_drafts == 1 + meta["spec_num_correct_drafts"] / meta["spec_verify_ct"]


def test_names_of_an_older_engine() -> None:
    meta = {
        "spec_verify_ct": 10,
        "spec_accepted_drafts": 20,
        "spec_proposed_drafts": 70,
        "spec_accept_histogram": [2, 2, 2, 4],
    }
    assert sample(meta, 30) == Sample(
        id="p", category="code", tokens=30, steps=10, taken=20, proposed=70, histogram=(2, 2, 2, 4)
    )


def test_server_without_a_drafter_gives_no_sample() -> None:
    meta = json.loads((CASES / "generate-ar-t1.json").read_text())["response"]["meta_info"]
    assert sample(meta, 96) is None


def test_pooled_is_not_the_mean_of_requests() -> None:
    """A long request at 2 tokens a step and a short one at 6: 2.2 by tokens and steps, 4 by requests."""
    samples = [
        Sample(id="a", category="x", tokens=200, steps=100),
        Sample(id="b", category="y", tokens=30, steps=5),
    ]
    found = acceptance_of(samples, concurrency=1)
    assert found.overall.accept_length == pytest.approx(230 / 105)
    assert found.overall.accept_length_request_mean == 4
    assert {name: group.accept_length for name, group in found.categories.items()} == {"x": 2, "y": 6}
    assert found.overall.accept_length_interval is not None
    assert found.overall.accept_length_interval[0] == 2


def test_position_rates() -> None:
    assert position_rates((1, 1, 2, 4)) == (7 / 8, 6 / 8, 4 / 8)
    assert position_rates(()) == ()


def drafter(histogram: tuple[int, ...], requests: int = 20) -> list[Sample]:
    steps = sum(histogram)
    taken = sum(place * count for place, count in enumerate(histogram))
    one = Sample(
        id="p",
        category="c",
        tokens=steps + taken,
        steps=steps,
        taken=taken,
        proposed=steps * 7,
        histogram=histogram,
    )
    return [one] * requests


@pytest.mark.parametrize(
    ("histogram", "least", "codes"),
    [
        ((10, 10, 30, 50), None, []),
        ((99, 1), None, ["drafter-useless"]),
        ((60, 10, 10, 20), None, ["drafter-weak"]),
        ((10, 10, 30, 50), 3.5, ["accept-length-low"]),
        ((10, 10, 30, 50), 3.0, []),
    ],
)
def test_verdicts(histogram: tuple[int, ...], least: float | None, codes: list[str]) -> None:
    findings = judge(acceptance_of(drafter(histogram), concurrency=1), least=least)
    assert [finding.code for finding in findings] == codes


def test_short_answers_are_named() -> None:
    short = Sample(id="p", category="c", tokens=4, steps=1, taken=7, proposed=7, histogram=(0,) * 7 + (1,))
    (finding,) = judge(acceptance_of([short] * 3, concurrency=1))
    assert finding.code == "answers-too-short"
