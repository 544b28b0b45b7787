"""What does a verb do when ``--host`` names a host that ssh reaches?"""

from __future__ import annotations

import tomllib
from enum import StrEnum

import msgspec

from kitctl.kit.typed import read_typed

SOURCE = "kitctl/data/remote.toml"


class Kind(StrEnum):
    """How a verb lives on the remote host; ``data/remote.toml`` says what each means."""

    HERE = "here"
    LOOK = "look"
    WORK = "work"
    MEASURE = "measure"


class RemoteVerb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One verb: its kind, which options hold files of this machine, read or written, and what else it does."""

    kind: Kind
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    config: bool = False
    serves: bool = False
    api: bool = False


class LineTimes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How patient kitctl is with the line: seconds, and the MiB that it carries at most."""

    silent_s: float
    connect_s: float
    give_up_s: float
    slowest_try_s: float
    abandoned_s: float
    carried_mib: int


class RemoteBook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``data/remote.toml``. Verbs are named as typed: ``up``, ``models pull``."""

    line: LineTimes
    verbs: dict[str, RemoteVerb]


def read_remote_book(text: str) -> RemoteBook:
    """The book. Raises KitError ``bad-file`` (exit 2) for a broken one."""
    return read_typed(tomllib.loads(text), RemoteBook, source_of=lambda _: SOURCE)


def find_verb(book: RemoteBook, verb: str, sub_verb: str | None) -> RemoteVerb:
    """The row of a verb, or of its sub-verb when one was typed."""
    return book.verbs[f"{verb} {sub_verb}" if sub_verb else verb]
