"""Which hosts did ``--nodes`` name, and which words go to each?"""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.errors import Exit, KitError
from kitctl.host.remote_address import SshHost, read_address

FEWEST, MOST = 2, 4


@dataclass(frozen=True, kw_only=True)
class Node:
    """One host: its rank, its address as typed, and a short name for its lines."""

    rank: int
    address: str
    name: str
    host: SshHost


def read_nodes(text: str) -> tuple[Node, ...]:
    """The hosts in rank order. Raises KitError ``bad-nodes`` or ``bad-address`` (exit 2)."""
    typed = [part.strip() for part in text.split(",") if part.strip()]
    hosts = [read_address(part) if part.startswith("ssh://") else None for part in typed]
    strange = [part for part, host in zip(typed, hosts, strict=True) if host is None]
    if strange or not FEWEST <= len(typed) <= MOST or len(set(typed)) != len(typed):
        raise KitError(
            "bad-nodes",
            f"--nodes takes {FEWEST} to {MOST} different hosts that ssh reaches; more are a cluster's",
            evidence=(text,),
            remedy="for example --nodes ssh://me@gpu1,ssh://me@gpu2; kitctl render --to kubernetes is for more",
            exit_code=Exit.USAGE,
        )
    known = [host for host in hosts if host is not None]
    names = [host.host for host in known]
    unique = len(set(names)) == len(names)
    return tuple(
        Node(rank=rank, address=typed[rank], name=host.host if unique else host.words, host=host)
        for rank, host in enumerate(known)
    )


def without_option(words: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The words without ``option`` and its value, typed as one word or two."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word == option:
            skip = True
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return tuple(kept)
