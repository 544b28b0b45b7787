"""What the last start of a stack took, as its record tells it."""

from __future__ import annotations

from typing import Any

import pytest

from kitctl.commands import last_start
from kitctl.watch.run_record import PhaseTime


class Record:
    """As much of a run record as is read."""

    def __init__(
        self, stack: str, *, ready: str | None = "now", rehearsal: bool = False, **seconds: float
    ) -> None:
        self.stack, self.ready, self.plan = stack, ready, {"rehearsal": rehearsal}
        self.phases = tuple(PhaseTime(name=name, seconds=took) for name, took in seconds.items())


RECORDS = [
    Record("ep4", ready=None, imports=1.0),
    Record("ep4", image=240.0, model=3600.0, start=0.5, imports=25.0, weights=500.0, total=4365.5),
    Record("ep4", imports=99.0),
    Record("tp8", rehearsal=True, imports=15.0, total=20.0),
]


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_start, "list_records", lambda: iter(RECORDS))


def test_what_was_built_or_fetched_once_is_no_part_of_the_next_start() -> None:
    assert last_start.last_phases("ep4", rehearsal=False) == {"start": 0.5, "imports": 25.0, "weights": 500.0}


@pytest.mark.parametrize(
    ("stack", "rehearsal", "found"),
    [("ep4", True, None), ("tp8", False, None), (None, True, {"imports": 15.0}), ("gone", False, None)],
)
def test_only_a_start_of_its_own_kind_counts(stack: str | None, rehearsal: bool, found: Any) -> None:
    assert last_start.last_phases(stack, rehearsal=rehearsal) == found
