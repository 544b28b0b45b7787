"""How long will a load still take, and does it move at all? Pure: samples in, rate, time left and verdict out.

Deadlines are derived from the bytes to read and from the last load of the same stack on this host, never fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kitctl.watch.engine_log import LoadProgress, Phase, phase_durations

SLOWEST_READ_BYTES_PER_S = 150_000_000
"""A hard disk or a loaded network mount; slower storage is worth a word of its own."""
FIRST_START_S = 900.0
"""Import, kernels compiled for the first time (measured, SGLang 0.5.16: up to 298 s for one) and graphs."""
SLOWER_THAN_LAST = 3.0
QUIET_S = 60.0
STALLED_S = 240.0
"""Above the longest gap between two signs of life measured on H200 (46 s, Python import)."""
MEMORY_STEP_MIB = 32
BYTES_STEP = 8 * 1024**2
COMPILERS = ("nvcc", "cicc", "ptxas", "cc1plus", "ninja", "cudafe++", "fatbinary")
LATER_PHASES = (
    Phase.STARTED,
    Phase.DISTRIBUTED,
    Phase.WEIGHTS,
    Phase.DRAFTER,
    Phase.KV_CACHE,
    Phase.GRAPHS,
    Phase.WARM_UP,
)


class Motion(StrEnum):
    """Whether a load moves. ``stalled`` is a verdict, ``quiet`` only a hint."""

    MOVING = "moving"
    COMPILING = "compiling"
    QUIET = "quiet"
    STALLED = "stalled"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What the host shows of a container at one moment; ``None`` is what could not be read.

    ``gpu_failure`` says why the container cannot reach its GPUs; ``gpu_memory_mib`` is in use over all of them.
    """

    at_s: float
    messages: int
    read_bytes: int | None = None
    memory_mib: int | None = None
    programs: tuple[str, ...] = ()
    gpu_memory_mib: int | None = None
    gpu_failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """The fold over samples: when each sign of life was last seen to change."""

    begun_s: float
    line_s: float
    bytes_s: float | None = None
    memory_s: float | None = None
    gpu_memory_s: float | None = None
    compiling: str | None = None
    last: Sample | None = None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Rate and time left of a load; ``by`` says from what. ``None`` is unknown."""

    left_s: float | None
    by: str
    fraction: float | None = None
    bytes_per_s: float | None = None


def feel(pulse: Pulse, sample: Sample) -> Pulse:
    """The pulse after one more sample."""
    last = pulse.last
    compiling = next((name for name in sample.programs if name in COMPILERS), None)
    if last is None:
        return replace(pulse, last=sample, compiling=compiling, line_s=max(pulse.line_s, sample.at_s))
    grew_bytes = _grew(last.read_bytes, sample.read_bytes, BYTES_STEP)
    grew_memory = _grew(last.memory_mib, sample.memory_mib, MEMORY_STEP_MIB)
    grew_gpu_memory = _grew(last.gpu_memory_mib, sample.gpu_memory_mib, MEMORY_STEP_MIB)
    kept = replace(
        sample,
        read_bytes=sample.read_bytes if grew_bytes else last.read_bytes,
        memory_mib=sample.memory_mib if grew_memory else last.memory_mib,
        gpu_memory_mib=sample.gpu_memory_mib if grew_gpu_memory else last.gpu_memory_mib,
    )
    return replace(
        pulse,
        line_s=sample.at_s if sample.messages > last.messages else pulse.line_s,
        bytes_s=sample.at_s if grew_bytes else pulse.bytes_s,
        memory_s=sample.at_s if grew_memory else pulse.memory_s,
        gpu_memory_s=sample.at_s if grew_gpu_memory else pulse.gpu_memory_s,
        compiling=compiling,
        last=kept,
    )


def _grew(before: int | None, now: int | None, step: int) -> bool:
    if now is None:
        return False
    return before is None or now - before >= step


def judge_motion(pulse: Pulse, *, now_s: float, stalled_s: float = STALLED_S) -> Motion:
    """Whether the load moves: a line, a byte read or memory taken, the host's or the GPUs', counts.

    A running compiler is no stall. ``quiet`` comes after a minute, or a quarter of ``stalled_s`` if that is less.
    """
    alive_s = max(s for s in _signs(pulse).values() if s is not None)
    if now_s - alive_s < min(QUIET_S, stalled_s / 4):
        return Motion.MOVING
    if pulse.compiling is not None:
        return Motion.COMPILING
    return Motion.STALLED if now_s - alive_s >= stalled_s else Motion.QUIET


def motion_text(pulse: Pulse, *, now_s: float) -> str:
    """What is seen of the load, for a person."""
    if pulse.compiling is not None:
        return f"{pulse.compiling} runs: kernels are being compiled"
    seen = [
        f"last {name} {now_s - at_s:.0f} s ago" for name, at_s in _signs(pulse).items() if at_s is not None
    ]
    return ", ".join(seen)


def _signs(pulse: Pulse) -> dict[str, float | None]:
    return {
        "line": pulse.line_s,
        "byte read": pulse.bytes_s,
        "memory taken": pulse.memory_s,
        "GPU memory taken": pulse.gpu_memory_s,
    }


def estimate(
    progress: LoadProgress,
    *,
    now_s: float,
    weight_bytes: int | None = None,
    last_load: Mapping[str, float] | None = None,
) -> Estimate:
    """Rate and time left, from the weights' progress bar and the phases (seconds) of the last load, if any."""
    later_s = _later_s(progress, last_load)
    bar, spent_s = progress.shards, phase_durations(progress, now_s=now_s).get(Phase.WEIGHTS, 0.0)
    if progress.phase is Phase.WEIGHTS and bar is not None and 0 < bar.done <= bar.total and spent_s > 0:
        fraction = bar.done / bar.total
        left_s = spent_s / bar.done * (bar.total - bar.done) + (later_s or 0.0)
        rate = weight_bytes * fraction / spent_s if weight_bytes else None
        by = "shards" if later_s is None else "shards and the last load"
        return Estimate(left_s=left_s, by=by, fraction=fraction, bytes_per_s=rate)
    if last_load and later_s is not None:
        in_phase = last_load.get(progress.phase.value, 0.0)
        spent = phase_durations(progress, now_s=now_s).get(progress.phase, 0.0)
        return Estimate(left_s=max(0.0, in_phase - spent) + later_s, by="the last load")
    return Estimate(left_s=None, by="nothing to compare with yet")


def _later_s(progress: LoadProgress, last_load: Mapping[str, float] | None) -> float | None:
    if not last_load:
        return None
    seen = {phase for phase, _ in progress.transitions} | {progress.phase}
    return sum(last_load.get(phase.value, 0.0) for phase in LATER_PHASES if phase not in seen)


def derive_deadline_s(
    *, weight_bytes: int | None, last_total_s: float | None, start_period_s: float
) -> float:
    """Seconds after which a start is given up, however much it moves.

    Three times the last load, or the bytes at the slowest rate worth waiting for plus a first start's compiling;
    never less than the stack's own start period.
    """
    if last_total_s is not None:
        return max(start_period_s, SLOWER_THAN_LAST * last_total_s)
    read_s = (weight_bytes or 0) / SLOWEST_READ_BYTES_PER_S
    return max(start_period_s, read_s + FIRST_START_S)
