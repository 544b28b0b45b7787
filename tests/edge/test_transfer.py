"""One file's transfer: cuts, stalls and wrong bytes, against a real server on loopback."""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hubserver import Hub, Repo, Switches
from model_world import TINY, random_bytes

from kitctl.edge.streams import Source
from kitctl.edge.transfer import Patience, Reporter, StoppedError, fetch_file
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import FileRole, LockedFile, LockState, ModelEntry

MB = 1024**2
DATA = random_bytes(12 * MB, 7)
PATH = "model.safetensors"
FILE = LockedFile(
    path=PATH, size_bytes=len(DATA), role=FileRole.WEIGHTS, sha256=hashlib.sha256(DATA).hexdigest()
)
ENTRY = ModelEntry(repo=TINY, state=LockState.LOCKED, commit="a" * 40, files=(FILE,))


@dataclass
class Said:
    """What a transfer told; ``on_line`` runs at each line."""

    lines: list[str] = field(default_factory=list)
    came: int = 0
    had: int = 0
    on_line: object = None
    stop: threading.Event = field(default_factory=threading.Event)

    def say(self, line: str) -> None:
        self.lines.append(line)
        if callable(self.on_line):
            self.on_line()

    def add_came(self, count: int) -> None:
        self.came += count

    def add_had(self, count: int) -> None:
        self.had += count

    @property
    def reporter(self) -> Reporter:
        return Reporter(came=self.add_came, had=self.add_had, say=self.say, stop=self.stop)


@dataclass
class Place:
    """Where one test's file goes."""

    hub: Hub
    part: Path
    blob: Path
    said: Said = field(default_factory=Said)

    def fetch(self, *, tries: int = 2, stall_s: float = 300.0, file: LockedFile = FILE) -> None:
        url = f"{self.hub.url}/{TINY}/resolve/{'a' * 40}/{PATH}"
        source = Source(entry=ENTRY, file=file, url=url)
        patience = Patience(tries=tries, stall_s=stall_s)
        fetch_file(source, self.part, self.blob, patience=patience, reporter=self.said.reporter)

    def refused(self, **how: float) -> KitError:
        with pytest.raises(KitError) as caught:
            self.fetch(**how)  # type: ignore[arg-type]
        assert not self.blob.exists()
        return caught.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    blobs = tmp_path / "blobs"
    with Hub({TINY: Repo({PATH: DATA})}) as hub:
        yield Place(hub, blobs / "x.kitctl-part", blobs / "x")  # type: ignore[misc]


def test_a_whole_file_is_renamed_into_place(place: Place) -> None:
    place.fetch()
    assert place.blob.read_bytes() == DATA
    assert (place.part.exists(), place.said.came, place.said.lines) == (False, len(DATA), [])


def test_a_connection_cut_at_every_megabyte_fetches_no_byte_twice(place: Place) -> None:
    place.hub.switches.cut_every = MB
    place.fetch()
    assert place.blob.read_bytes() == DATA
    assert place.hub.bytes_sent[PATH] == len(DATA)
    assert len(place.hub.requests_for("/storage/")) == 12


def test_what_a_killed_pull_left_is_hashed_and_continued(place: Place) -> None:
    place.part.parent.mkdir()
    place.part.write_bytes(DATA[: 5 * MB])
    place.fetch()
    assert place.blob.read_bytes() == DATA
    assert place.hub.requests_for("/storage/")[0][2] == f"bytes={5 * MB}-"
    assert (place.said.had, place.said.came) == (5 * MB, 7 * MB)


def test_a_whole_part_needs_no_request(place: Place) -> None:
    place.part.parent.mkdir()
    place.part.write_bytes(DATA)
    place.fetch()
    assert (place.blob.read_bytes() == DATA, place.hub.log) == (True, [])


def test_a_damaged_part_is_thrown_away_and_the_file_fetched_anew(place: Place) -> None:
    place.part.parent.mkdir()
    place.part.write_bytes(bytes(5 * MB))
    place.fetch()
    assert place.blob.read_bytes() == DATA
    assert place.said.lines == [f"{PATH}: what an earlier pull left is damaged, fetching the file anew"]
    assert place.said.came + place.said.had == len(DATA)


def test_a_part_longer_than_the_file_is_thrown_away(place: Place) -> None:
    place.part.parent.mkdir()
    place.part.write_bytes(DATA + b"more")
    place.fetch()
    assert place.blob.read_bytes() == DATA


def test_other_bytes_are_never_accepted(place: Place) -> None:
    place.hub.repos[TINY].sent[PATH] = DATA[:-1] + b"!"
    refused = place.refused()
    assert (refused.code, refused.exit_code) == ("hash-mismatch", Exit.FETCH)
    assert refused.remedy == "run it again; if it stays so: kitctl models lock org/tiny"
    assert not place.part.exists()


def test_a_file_of_another_size_is_refused_before_its_first_byte(place: Place) -> None:
    place.hub.repos[TINY].sent[PATH] = DATA + b"more"
    refused = place.refused()
    assert refused.code == "file-changed"
    assert refused.evidence == (f"the hub has {len(DATA) + 4} bytes, models.lock says {len(DATA)}",)


def test_a_file_with_another_hash_is_refused_before_its_first_byte(place: Place) -> None:
    place.hub.switches.linked_etag = "e" * 64
    refused = place.refused()
    assert (refused.code, place.said.came) == ("file-changed", 0)


def test_a_server_that_ignores_ranges_is_read_past_what_is_there(place: Place) -> None:
    place.hub.switches.ignore_range = True
    place.part.parent.mkdir()
    place.part.write_bytes(DATA[: 5 * MB])
    place.fetch()
    assert place.blob.read_bytes() == DATA


def test_a_server_that_ignores_ranges_and_cuts_ends_after_the_tries(place: Place) -> None:
    place.hub.switches.ignore_range = True
    place.hub.switches.cut_every = MB
    refused = place.refused()
    assert (refused.code, refused.exit_code) == ("fetch-failed", Exit.FETCH)
    assert refused.cause == f"{PATH} of org/tiny stopped at 1.05 MB of 12.6 MB"
    assert place.part.stat().st_size == MB


def test_a_stall_is_ended_and_the_file_goes_on(place: Place) -> None:
    place.hub.switches.stall_after = 2 * MB
    place.said.on_line = lambda: setattr(place.hub.switches, "stall_after", None)
    place.fetch(stall_s=1.0)
    assert place.blob.read_bytes() == DATA
    assert place.said.lines == [f"{PATH}: no byte came for 1 s at 2.10 MB, going on in 0.1 s"]


def test_a_stream_that_merely_trickles_counts_as_stalled(place: Place) -> None:
    place.hub.switches.piece_bytes, place.hub.switches.rate_bytes_per_s = 100, 1000.0
    place.said.on_line = lambda: setattr(place.hub, "switches", Switches())
    place.fetch(stall_s=1.0)
    assert place.blob.read_bytes() == DATA
    assert re.fullmatch(rf"{PATH}: only \d+ bytes came in 1 s at .*, going on in 0.1 s", place.said.lines[0])


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_the_server_names_how_long_to_wait(place: Place, status: int) -> None:
    place.hub.switches.status_once = [(status, {"Retry-After": "1"})]
    place.fetch()
    assert place.said.lines == [f"{PATH}: the server answered {status} at 0 B, going on in 1 s"]


def test_a_rate_limit_names_its_reset(place: Place) -> None:
    place.hub.switches.status_once = [(429, {"RateLimit": '"api";r=0;t=1'})]
    place.fetch()
    assert place.said.lines == [f"{PATH}: the server answered 429 at 0 B, going on in 1 s"]


@pytest.mark.parametrize(
    ("status", "code"), [(401, "hub-token"), (403, "hub-gated"), (404, "file-gone"), (400, "hub-refused")]
)
def test_refusals_are_not_asked_again(place: Place, status: int, code: str) -> None:
    place.hub.switches.status_always = status
    assert place.refused().code == code
    assert len(place.hub.log) == 1


def test_an_old_link_to_the_storage_is_asked_for_anew(place: Place) -> None:
    place.hub.switches.status_storage_once = [403]
    place.fetch()
    assert place.blob.read_bytes() == DATA
    assert "the link to it may be too old" in place.said.lines[0]


def test_a_stop_ends_it_and_keeps_the_part(place: Place) -> None:
    place.hub.switches.cut_every = MB
    place.said.on_line = place.said.stop.set
    with pytest.raises(StoppedError):
        place.fetch()
    assert place.part.stat().st_size == MB


def test_nobody_listens(place: Place) -> None:
    place.hub.__exit__(None, None, None)
    refused = place.refused()
    assert refused.code == "fetch-failed"
    assert "2 tries in a row brought no byte" in refused.evidence[0]
