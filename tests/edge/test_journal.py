"""A journal that a kill cut short goes on behind its last whole line."""

from pathlib import Path

import pytest

from kitctl.campaign.events import Ended, Session
from kitctl.edge.journal import JournalFile, load_journal
from kitctl.errors import KitError


def write_three(path: str) -> None:
    book = JournalFile(path)
    for name in ("1", "2", "3"):
        book.append(Session(kitctl=name))
    book.close()


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_cut_line_is_removed_before_the_next_is_written(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "deep" / "journal.jsonl"
    write_three(str(path))
    path.write_bytes(path.read_bytes()[:-cut])
    book = JournalFile(str(path))
    assert [entry.n for entry in book.entries] == [1, 2]
    book.append(Ended(outcome="complete"))
    book.close()
    found = load_journal(str(path))
    assert [entry.n for entry in found.entries] == [1, 2, 3]
    assert (found.entries[-1].event, found.torn_bytes) == (Ended(outcome="complete"), 0)


def test_the_state_follows_what_is_appended(tmp_path: Path) -> None:
    book = JournalFile(str(tmp_path / "journal.jsonl"))
    book.append(Session(kitctl="1"))
    book.append(Ended(outcome="time-budget"))
    assert (book.state.sessions, book.state.ended) == (1, "time-budget")
    book.close()


def test_a_changed_line_in_the_middle_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_three(str(path))
    raw = path.read_bytes().replace(b'"kitctl":"2"', b'"kitctl":"9"')
    path.write_bytes(raw)
    with pytest.raises(KitError) as caught:
        JournalFile(str(path))
    assert caught.value.code == "journal-broken"
    assert path.read_bytes() == raw
