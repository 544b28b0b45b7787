"""What runs is compared with what was recorded, line by line."""

from typing import Any

import msgspec

from kitctl.watch.drift import find_drift
from kitctl.watch.run_record import Outcome, RunRecord

RECORD = RunRecord(
    id="r",
    stack="s",
    project="p",
    fingerprint="f",
    kitctl="0",
    command=("up", "s"),
    started="2026-11-29T15:00:00.000Z",
    outcome=Outcome.READY,
    url="http://127.0.0.1:1",
    served_model="m",
    plan={"argv": ["--a", "1"], "environment": {"NCCL_P2P_LEVEL": "SYS", "X": "1"}},
    facts={},
    image_id="sha256:1",
    argv_live=("--a", "1"),
)


def drift(record: RunRecord | None = RECORD, **live: Any) -> tuple[str, ...]:
    return find_drift(record, **({"argv": ("--a", "1"), "image_id": "sha256:1"} | live))


def test_no_drift() -> None:
    assert drift() == drift(environment={"NCCL_P2P_LEVEL": "SYS", "X": "1", "PATH": "/bin"}) == ()


def test_without_a_record_that_itself_is_told() -> None:
    assert drift(None) == ("no run record belongs to this container",)


def test_argv_and_image() -> None:
    assert drift(argv=("--a", "2"), image_id="sha256:2") == (
        "argv: recorded --a 1, runs --a 2",
        "image: recorded sha256:1, runs sha256:2",
        "argv: differs from the plan",
    )


def test_environment() -> None:
    assert drift(environment={"NCCL_P2P_LEVEL": "PHB"}) == (
        "environment NCCL_P2P_LEVEL: planned SYS, runs PHB",
        "environment X: planned 1, runs nothing",
    )


def test_a_record_that_was_never_started_claims_nothing() -> None:
    bare = msgspec.structs.replace(RECORD, plan={}, image_id=None, argv_live=())
    assert drift(bare, argv=("--z",), image_id="other") == ()
