"""What runs is held against what was recorded."""

from kitctl.watch.drift import find_drift
from kitctl.watch.run_record import Outcome, RunRecord

RECORD = RunRecord(
    id="r",
    stack="ep4",
    project="p",
    fingerprint="f",
    kitctl="0.1.0",
    command=("up",),
    started="t",
    outcome=Outcome.READY,
    url="u",
    served_model="m",
    plan={
        "argv": ["--tp-size", "8"],
        "environment": {"NCCL_P2P_LEVEL": "SYS", "HF_TOKEN": "(hidden)"},
    },
    facts={},
    image_id="sha256:a",
    argv_live=("--tp-size", "8"),
)
LIVE = {"NCCL_P2P_LEVEL": "SYS", "HF_TOKEN": "hf_x", "PATH": "/bin"}


def test_no_drift() -> None:
    got = find_drift(RECORD, argv=("--tp-size", "8"), image_id="sha256:a", environment=LIVE)
    assert got == ()


def test_each_difference_is_a_line() -> None:
    live = LIVE | {"NCCL_P2P_LEVEL": "PHB"}
    assert find_drift(RECORD, argv=("--tp-size", "4"), image_id="sha256:b", environment=live) == (
        "argv: recorded --tp-size 8, runs --tp-size 4",
        "image: recorded sha256:a, runs sha256:b",
        "argv: differs from the plan",
        "environment NCCL_P2P_LEVEL: planned SYS, runs PHB",
    )


def test_a_container_without_a_record_is_drift_itself() -> None:
    assert find_drift(None, argv=(), image_id="") == ("no run record belongs to this container",)
