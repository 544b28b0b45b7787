"""A journal is believed only as far as it was written whole; a kill at any byte loses at most the last entry."""

import msgspec
import pytest
from campaign.planted_journal import begun_of, done_of, entries_of, small, up_of, written
from hypothesis import given
from hypothesis import strategies as st

from kitctl.campaign.events import Down, Event, Session
from kitctl.campaign.journal import read_journal
from kitctl.campaign.state import fold
from kitctl.errors import Exit, KitError

BEGUN = begun_of(small(), {"plain": False, "drafted": True})
EVENTS: list[Event] = [
    BEGUN,
    Session(kitctl="0"),
    up_of("plain"),
    done_of("plain bench kit C=1 #1", "plain", concurrency=1, repeat=0, rate=100.0),
    done_of("plain bench kit C=8 #1", "plain", concurrency=8, repeat=0, rate=400.0),
    Down(arm="plain", seconds=1.0, gpu_memory_free=True),
]
RAW = written(EVENTS)


def test_what_was_written_is_read() -> None:
    found = read_journal(RAW, name="j")
    assert found.entries == tuple(entries_of(EVENTS))
    assert (found.good_bytes, found.torn_bytes) == (len(RAW), 0)


@given(cut=st.integers(0, len(RAW)))
def test_a_kill_at_any_byte_leaves_a_whole_beginning(cut: int) -> None:
    found = read_journal(RAW[:cut], name="j")
    whole = RAW[:cut].count(b"\n")
    assert found.entries == tuple(entries_of(EVENTS)[:whole])
    assert found.good_bytes + found.torn_bytes == cut
    assert RAW[: found.good_bytes].count(b"\n") == whole


@given(cut=st.integers(0, len(RAW)))
def test_a_half_point_is_no_point(cut: int) -> None:
    state = fold(read_journal(RAW[:cut], name="j").entries)
    complete = [event.work for event in EVENTS[: RAW[:cut].count(b"\n")] if hasattr(event, "work")]
    assert list(state.done) == complete


@given(at=st.integers(0, len(RAW) - 1), other=st.integers(0, 255))
def test_no_changed_byte_goes_unseen(at: int, other: int) -> None:
    if RAW[at] == other:
        return
    raw = RAW[:at] + bytes([other]) + RAW[at + 1 :]
    try:
        found = read_journal(raw, name="j")
    except KitError as broken:
        assert (broken.code, broken.exit_code) == ("journal-broken", Exit.USAGE)
        return
    assert len(found.entries) < len(EVENTS)
    assert found.entries == tuple(entries_of(EVENTS)[: len(found.entries)])


def test_a_lost_line_is_named_with_its_place() -> None:
    lines = RAW.splitlines(keepends=True)
    with pytest.raises(KitError) as caught:
        read_journal(b"".join(lines[:2] + lines[3:]), name="journal.jsonl")
    assert caught.value.cause == "journal.jsonl: line 3 is not as kitctl wrote it"


def test_zeros_of_a_power_cut_at_the_end_are_cut_off() -> None:
    found = read_journal(RAW + b"\0" * 100, name="j")
    assert (len(found.entries), found.torn_bytes) == (len(EVENTS), 100)


def test_a_figure_that_nothing_can_have_measured_is_named() -> None:
    """Also where the checksums are right: adopt, status and run refuse it as compare refuses a result of it."""
    done = done_of("plain bench kit C=1 #1", "plain", concurrency=1, repeat=0, rate=100.0)
    spoilt = msgspec.structs.replace(done, repeat=msgspec.structs.replace(done.repeat, window_s=-10.0))
    with pytest.raises(
        KitError, match=r"j holds what nothing can have measured: line 2: window_s is -10\.0"
    ) as e:
        read_journal(written([BEGUN, spoilt]), name="j")
    assert (e.value.code, e.value.exit_code) == ("bad-result", Exit.USAGE)
