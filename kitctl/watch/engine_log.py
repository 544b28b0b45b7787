"""How far has the engine come? A pure fold over its log lines (SGLang 0.5.11-0.5.23).

Nothing answers on the port until weights, KV pools and graphs are done (measured, SGLang 0.5.16), so the log
is the only witness of a load. Call ``advance`` with each raw line as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from kitctl.watch.lines import LogLine, split_line

MAX_FATAL_LINES = 40


class Phase(StrEnum):
    """What the engine does now. The order of ``drafter``, ``kv_cache`` and ``graphs`` differs by version."""

    WAITING = "waiting"
    STARTED = "started"
    DISTRIBUTED = "distributed"
    WEIGHTS = "weights"
    DRAFTER = "drafter"
    KV_CACHE = "kv_cache"
    GRAPHS = "graphs"
    WARM_UP = "warm_up"
    READY = "ready"


@dataclass(frozen=True, kw_only=True)
class RankLoad:
    """One rank's loading of one model; ``elapsed_s`` is ``None`` until it ended."""

    rank: str | None
    is_drafter: bool
    begun_s: float | None = None
    elapsed_s: float | None = None
    model_type: str | None = None
    memory_gb: float | None = None
    available_gb: float | None = None


@dataclass(frozen=True, kw_only=True)
class KvPool:
    """One KV pool of one rank: GB as the engine prints them (GiB), K and V together."""

    rank: str | None
    is_drafter: bool
    tokens: int
    size_gb: float | None


@dataclass(frozen=True, kw_only=True)
class Capture:
    """One capture of CUDA graphs by one rank; ``name`` is ``target decode``, ``draft verify``, ... or ``all``."""

    rank: str | None
    name: str
    elapsed_s: float | None = None
    memory_gb: float | None = None


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The last state of a progress bar: ``done`` of ``total`` steps."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What the engine says it can hold, once, before it listens."""

    max_total_tokens: int
    max_running_requests: int | None = None
    context_length: int | None = None
    available_gpu_gb: float | None = None


@dataclass(frozen=True, kw_only=True)
class LoadProgress:
    """All that the log told so far. ``transitions`` are (phase, second at which it began), in order."""

    phase: Phase = Phase.WAITING
    transitions: tuple[tuple[Phase, float | None], ...] = ()
    loads: tuple[RankLoad, ...] = ()
    pools: tuple[KvPool, ...] = ()
    captures: tuple[Capture, ...] = ()
    shards: Bar | None = None
    graph_batches: Bar | None = None
    drafter: str | None = None
    capacity: Capacity | None = None
    listening: bool = False
    fatal: tuple[LogLine, ...] = ()
    messages: int = 0
    last_stamp_s: float | None = None
    lead_rank: str | None = None

    @property
    def first_fatal(self) -> LogLine | None:
        """The first line that no start survives, or ``None``."""
        return self.fatal[0] if self.fatal else None


def advance(
    progress: LoadProgress, raw: str, *, fatal: re.Pattern[str], at_s: float | None = None
) -> LoadProgress:
    """``progress`` after one raw line (its end of line may be there or not).

    ``fatal`` matches the lines that end a start (``FailureBook.fatal``). ``at_s`` is the second at which the
    line came, by the caller's clock; without it the line's own stamp counts, to the second.
    """
    for line in split_line(raw):
        progress = _step(progress, line, fatal=fatal, at_s=at_s)
    return progress


def known_capacity(
    progress: LoadProgress, whole_log: Iterable[str], *, fatal: re.Pattern[str]
) -> Capacity | None:
    """The capacity that ``progress`` holds; without one, ``whole_log`` is read from its begin up to the line of it."""
    for line in whole_log if progress.capacity is None else ():
        progress = advance(progress, line, fatal=fatal)
        if progress.capacity is not None:
            break
    return progress.capacity


def phase_durations(progress: LoadProgress, *, now_s: float | None = None) -> dict[Phase, float]:
    """Seconds spent in each phase; a phase entered twice counts once with the sum.

    The running phase counts up to ``now_s`` if given, else up to the last stamp seen. Phases without a time are
    left out.
    """
    totals: dict[Phase, float] = {}
    end_s = progress.last_stamp_s if now_s is None else now_s
    ends = [*(begin_s for _, begin_s in progress.transitions), end_s][1:]
    for (phase, begin_s), until_s in zip(progress.transitions, ends, strict=True):
        if phase is not Phase.READY and begin_s is not None and until_s is not None:
            totals[phase] = totals.get(phase, 0.0) + max(0.0, until_s - begin_s)
    return totals


def _step(
    progress: LoadProgress, line: LogLine, *, fatal: re.Pattern[str], at_s: float | None
) -> LoadProgress:
    now_s = at_s if at_s is not None else line.stamp_s
    progress = replace(
        progress,
        messages=progress.messages + 1,
        last_stamp_s=now_s if now_s is not None else progress.last_stamp_s,
        lead_rank=progress.lead_rank or line.rank,
    )
    if line.is_bar:
        return _read_bar(progress, line)
    for marker, read in _MARKERS:
        found = marker.search(line.text)
        if found is not None:
            return read(progress, line, found)
    if len(progress.fatal) < MAX_FATAL_LINES and fatal.search(line.text):
        return replace(progress, fatal=(*progress.fatal, line))
    return progress


def _enter(progress: LoadProgress, line: LogLine, phase: Phase) -> LoadProgress:
    """Only the first rank that spoke moves the phase on, so that ranks out of step do not toss it about."""
    is_lead = line.rank is None or line.rank == progress.lead_rank
    if phase is progress.phase or not is_lead or progress.phase is Phase.READY:
        return progress
    return replace(progress, phase=phase, transitions=(*progress.transitions, (phase, progress.last_stamp_s)))


def _read_bar(progress: LoadProgress, line: LogLine) -> LoadProgress:
    done, total = (int(number) for number in _BAR_COUNT.findall(line.text)[-1])
    bar = Bar(done=done, total=total)
    if "shards" in line.text:
        return replace(progress, shards=bar)
    return replace(progress, graph_batches=bar) if progress.phase is Phase.GRAPHS else progress


def _server_args(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    del found
    return _enter(progress, line, Phase.STARTED)


def _distributed(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    """A drafter's worker says the same again after the target's weights: that is no new phase."""
    del found
    return progress if progress.loads else _enter(progress, line, Phase.DISTRIBUTED)


def _weights_begin(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    is_drafter = any(load.rank == line.rank for load in progress.loads)
    load = RankLoad(
        rank=line.rank,
        is_drafter=is_drafter,
        begun_s=progress.last_stamp_s,
        available_gb=_number(found["avail"]),
    )
    entered = _enter(progress, line, Phase.DRAFTER if is_drafter else Phase.WEIGHTS)
    return replace(entered, loads=(*progress.loads, load), shards=None)


def _weights_end(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    def ended(load: RankLoad) -> RankLoad:
        return replace(
            load,
            elapsed_s=float(found["elapsed"]),
            model_type=found["type"],
            available_gb=_number(found["avail"]),
            memory_gb=_number(found["mem"]),
        )

    open_at = [
        at for at, load in enumerate(progress.loads) if load.rank == line.rank and load.elapsed_s is None
    ]
    if not open_at:
        return progress
    loads = tuple(ended(load) if at == open_at[-1] else load for at, load in enumerate(progress.loads))
    return replace(progress, loads=loads)


def _kv_pool(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    sizes = [float(size) for size in _POOL_SIZE.findall(line.text)]
    has_pool = any(pool.rank == line.rank for pool in progress.pools)
    is_drafter = has_pool and any(load.is_drafter and load.rank == line.rank for load in progress.loads)
    pool = KvPool(
        rank=line.rank,
        is_drafter=is_drafter,
        tokens=int(found["tokens"]),
        size_gb=sum(sizes) if sizes else None,
    )
    return replace(_enter(progress, line, Phase.KV_CACHE), pools=(*progress.pools, pool))


def _drafter(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    del line
    return replace(progress, drafter=found["model"])


def _capture_begin(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    capture = Capture(rank=line.rank, name=found["name"] or "all")
    entered = _enter(progress, line, Phase.GRAPHS)
    return replace(entered, captures=(*progress.captures, capture), graph_batches=None)


def _capture_end(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    key = (line.rank, found["name"] or "all")
    captures = tuple(
        replace(capture, elapsed_s=float(found["elapsed"]), memory_gb=_number(found["mem"]))
        if (capture.rank, capture.name) == key and capture.elapsed_s is None
        else capture
        for capture in progress.captures
    )
    return replace(progress, captures=captures)


def _capacity(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    del found
    fields = dict(_FIELD.findall(line.text))
    running, context = fields.get("max_running_requests"), fields.get("context_len")
    capacity = Capacity(
        max_total_tokens=int(fields["max_total_num_tokens"]),
        max_running_requests=int(running) if running else None,
        context_length=int(context) if context else None,
        available_gpu_gb=_number(fields.get("available_gpu_mem")),
    )
    return replace(progress, capacity=progress.capacity or capacity)


def _listening(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    del found
    return replace(_enter(progress, line, Phase.WARM_UP), listening=True)


def _ready(progress: LoadProgress, line: LogLine, found: re.Match[str]) -> LoadProgress:
    del found
    return _enter(progress, line, Phase.READY)


def _number(text: str | None) -> float | None:
    return float(text) if text else None


_BAR_COUNT = re.compile(r"(\d+)/(\d+) \[")
_FIELD = re.compile(r"(\w+)=(\d+(?:\.\d+)?)")
_POOL_SIZE = re.compile(r"(?:K|V|KV)(?: cache)? size: (\d+(?:\.\d+)?) GB")
_GRAPH = r"Capture (?:(?P<name>(?:target|draft)[\w ]*?) )?(?:CUDA|cuda) graph "
_END = r"(?:[Ee]lapsed[=:] ?)(?P<elapsed>[\d.]+) ?s.*?(?:mem usage=(?P<mem>-?[\d.]+) GB|$)"
_MARKERS: tuple[
    tuple[re.Pattern[str], Callable[[LoadProgress, LogLine, re.Match[str]], LoadProgress]], ...
] = (
    (re.compile(r"^server_args=ServerArgs\("), _server_args),
    (re.compile(r"^Init torch distributed begin"), _distributed),
    (re.compile(r"^Load weight begin\.(?: avail mem=(?P<avail>-?[\d.]+) GB)?"), _weights_begin),
    (
        re.compile(
            r"^Load weight end\.(?: elapsed=(?P<elapsed>[\d.]+) s)(?:, type=(?P<type>\w+))?.*?"
            r"avail mem=(?P<avail>-?[\d.]+) GB(?:, mem usage=(?P<mem>-?[\d.]+) GB)?"
        ),
        _weights_end,
    ),
    (re.compile(r"^KV Cache is allocated\..*#tokens: (?P<tokens>\d+)"), _kv_pool),
    (re.compile(r"^Initialized \w+ draft runner\..*model=(?P<model>\w+)"), _drafter),
    (re.compile(_GRAPH + r"begin"), _capture_begin),
    (re.compile(_GRAPH + r"end\. (?:Time )?" + _END), _capture_end),
    (re.compile(r"^max_total_num_tokens=\d+"), _capacity),
    (re.compile(r"Uvicorn running on "), _listening),
    (re.compile(r"The server is fired up and ready to roll!"), _ready),
)
