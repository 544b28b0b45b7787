"""docs/faults.md is what was measured: every fault of the suite, with its time and its bound."""

import json

from chaos.faults import BY_NAME
from chaos.measured import MEASURED, TABLE, table


def test_docs_are_generated_from_the_measurements(accept: bool) -> None:
    if accept:
        TABLE.write_text(table())
    assert TABLE.read_text() == table()


def test_every_fault_was_measured_within_its_bound() -> None:
    known = json.loads(MEASURED.read_text())
    assert set(known) == set(BY_NAME)
    late = [name for name, seen in known.items() if (seen["seconds"] or 0) > BY_NAME[name].bound_s + 0.1]
    assert late == []


def test_there_are_at_least_25_faults() -> None:
    assert len(BY_NAME) >= 25
