"""What shall be put on the wire: which requests, over how many connections, starting when?"""

from __future__ import annotations

import math
from dataclasses import dataclass

STREAMS_PER_PROCESS = 512


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server's address. ``path`` is what stands before ``/v1`` in its URL, without a slash at the end."""

    host: str
    port: int
    tls: bool = False
    path: str = ""
    api_key: str | None = None
    ca_file: str | None = None
    insecure: bool = False

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Load:
    """Requests as bytes, in order; ``streams`` connections; ``starts_s`` offsets from the common start.

    Closed loop: one offset a stream, which then sends the next request as soon as its answer is complete.
    Open loop: one offset a request; connections are added up to ``most_streams``, then requests wait.
    """

    requests: tuple[bytes, ...]
    streams: int
    starts_s: tuple[float, ...]
    open_loop: bool = False
    most_streams: int = 4096

    @property
    def processes(self) -> int:
        """Client processes for it: one for each 512 streams."""
        return max(1, math.ceil(self.streams / STREAMS_PER_PROCESS))


@dataclass(frozen=True, kw_only=True)
class Share:
    """One process's part of a load: its request numbers, stream count, the first stream's number, starts."""

    numbers: tuple[int, ...]
    streams: int
    first_stream: int
    starts_s: tuple[float, ...]


def split_load(load: Load) -> tuple[Share, ...]:
    """Deal requests and streams out to the processes, round robin, so that all end at about the same time."""
    count = load.processes
    shares = []
    first = 0
    for part in range(count):
        streams = len(range(part, load.streams, count))
        shares.append(
            Share(
                numbers=tuple(range(part, len(load.requests), count)),
                streams=streams,
                first_stream=first,
                starts_s=load.starts_s[part::count],
            )
        )
        first += streams
    return tuple(shares)


@dataclass(frozen=True, kw_only=True)
class ClientHealth:
    """How the load client itself fared: the busiest process's share of a core, and how late its clock beat was."""

    processes: int
    cpu_share: float
    cpu_s: float
    lag_mean_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    reconnects: int


@dataclass(frozen=True, kw_only=True)
class LoadRun:
    """What a load left behind: raw event logs, the common start, and the client's own health."""

    logs: tuple[bytes, ...]
    go_ns: int
    health: ClientHealth
