"""The kept journal of a rehearsed reference campaign (SGLang 0.5.16, CPU) still reads, and docs show its report."""

from pathlib import Path

from kitctl.campaign.events import Session
from kitctl.campaign.figures import results_of
from kitctl.campaign.journal import read_journal
from kitctl.campaign.report import report_of
from kitctl.campaign.report_text import report_lines
from kitctl.campaign.state import State, fold

ROOT = Path(__file__).parent.parent.parent
JOURNAL = ROOT / "tests" / "cases" / "campaign" / "reference-rehearsal.journal.jsonl"
KILLED = JOURNAL.with_name("reference-rehearsal-killed.journal.jsonl")
SHOWN = ROOT / "docs" / "campaign-rehearsal.txt"


def kept() -> State:
    return fold(read_journal(JOURNAL.read_bytes(), name=JOURNAL.name).entries)


def test_docs_show_what_the_journal_says(accept: bool) -> None:
    state = kept()
    report = report_of(state)
    text = "\n".join(report_lines(report, [results_of(state, found.load) for found in report.tables])) + "\n"
    if accept:
        SHOWN.write_text(text)
    assert SHOWN.read_text() == text


def test_it_is_complete_and_every_empty_cell_has_its_reason() -> None:
    state = kept()
    report = report_of(state)
    assert (report.outcome, report.done + len(report.holes), state.doubles) == ("complete", report.works, ())
    (table,) = report.tables
    assert len(table.cells) == 7 * len({1, 2, 32, 64, 128, 192, 256})
    empty = {cell.concurrency for cell in table.cells if cell.reason is not None}
    assert empty == {32, 64, 128, 192, 256}
    reasons = {cell.reason.code for cell in table.cells if cell.reason is not None}
    assert (reasons, {reason.code for reason in report.holes.values()}) == ({"not-rehearsed"}, {"left-out"})


def test_a_run_that_was_killed_five_times_measured_the_same_works_each_once() -> None:
    """The same campaign: kitctl was ended by SIGKILL at 39, 131, 295, 486 and 686 s, and run again each time."""
    killed = fold(read_journal(KILLED.read_bytes(), name=KILLED.name).entries)
    undisturbed = kept()
    assert killed.done.keys() == undisturbed.done.keys()
    assert killed.holes.keys() == undisturbed.holes.keys()
    assert killed.doubles == undisturbed.doubles == ()
    assert report_of(killed).outcome == "complete"
    sessions = [
        entry
        for entry in read_journal(KILLED.read_bytes(), name=KILLED.name).entries
        if type(entry.event) is Session
    ]
    assert len(sessions) == 6
