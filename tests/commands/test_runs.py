"""kitctl runs lists, shows and compares the records that lie in the state folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitctl_process import KitUser

from kitctl.watch.run_record import Outcome, PhaseTime, RunRecord, record_text


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Two runs in a user's state folder."""

    before: str = "20261129T120000Z-kitctl-ep4-0001"
    after: str = "20261129T130000Z-kitctl-ep4-0002"


def write_runs(user: KitUser) -> Kept:
    kept = Kept()
    for run_id, changes in (
        (kept.before, {"outcome": Outcome.CRASHED, "diagnoses": ({"code": "shm-too-small"},)}),
        (kept.after, {"outcome": Outcome.READY, "fingerprint": "bb"}),
    ):
        folder = user.state / "runs" / run_id
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(record_text(record(run_id, folder, **changes)))
    return kept


def record(run_id: str, folder: Path, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "id": run_id,
        "stack": "ep4",
        "project": "kitctl-ep4",
        "fingerprint": "aa",
        "kitctl": "0.1.0",
        "command": ("up", "ep4"),
        "started": "2026-11-29T12:00:00.000Z",
        "url": "http://127.0.0.1:30001",
        "served_model": "kimi",
        "plan": {"argv": ["--tp-size", "8"], "environment": {"HF_TOKEN": "hf_x"}},
        "facts": {},
        "phases": (PhaseTime(name="total", seconds=255.0),),
        "folder": str(folder),
    }
    return RunRecord(**{**fields, **changes})


def test_list_newest_first(kit_user: KitUser) -> None:
    kept = write_runs(kit_user)
    got = kit_user.json("runs", "list")["runs"]
    assert [(run["id"], run["outcome"], run["diagnosis"]) for run in got] == [
        (kept.after, "ready", None),
        (kept.before, "crashed", "shm-too-small"),
    ]
    assert kit_user.json("runs", "list", "--last", "1")["runs"] == got[:1]
    assert kit_user.json("runs", "list", "--stack", "other")["runs"] == []


def test_show_by_id_by_its_beginning_and_by_stack(kit_user: KitUser) -> None:
    kept = write_runs(kit_user)
    for name in (kept.after, "ep4", "20261129T13"):
        assert kit_user.json("runs", "show", name)["run"]["id"] == kept.after


def test_no_secret_is_kept(kit_user: KitUser) -> None:
    kept = write_runs(kit_user)
    assert "hf_x" not in (kit_user.state / "runs" / kept.after / "record.json").read_text()


def test_diff(kit_user: KitUser) -> None:
    kept = write_runs(kit_user)
    done = kit_user.run("runs", "diff", kept.before, kept.after)
    assert done.stdout.splitlines() == [
        "fingerprint: aa -> bb",
        "outcome: crashed -> ready",
        "diagnoses[0].code: shm-too-small -> not set",
    ]


def test_a_run_that_is_not_there(kit_user: KitUser) -> None:
    done = kit_user.run("runs", "show", "nope")
    assert done.returncode == 2
    assert "no run is recorded under nope (no-such-run)" in done.stderr
