"""Is what the fit leaves enough, and which setting would use the memory better?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kitctl.plan.engine_defaults import MIB, EngineSizes
from kitctl.plan.reserves import Amount

SURELY_NEEDED_MIB = 256
NEARLY_ALL = 0.97
FP8 = "fp8_e4m3"


class Verdict(StrEnum):
    """``tight``: it starts, but a large request or image may run out of memory, or the context does not fit."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does-not-fit"


RANK = {Verdict.DOES_NOT_FIT: 0, Verdict.TIGHT: 1, Verdict.FITS: 2}


@dataclass(frozen=True, kw_only=True)
class Room:
    """Bytes of one GPU: free ``before`` loading, ``loaded`` weights, ``free`` when ready, and its KV tokens.

    ``optional`` bytes are in graphs that the engine can do without, ``skipped`` names those it will leave out.
    """

    before: int
    loaded: int
    free: int
    tokens: int
    optional: int
    skipped: tuple[str, ...]


def judge_fit(room: Room, sizes: EngineSizes, *, needed: tuple[Amount, ...]) -> tuple[Verdict, str]:
    """The verdict and its reason with the numbers. ``needed`` starts with the activations of a prefill chunk."""
    loaded, free, least = gib(room.loaded), gib(room.free), room.loaded / room.before
    if room.loaded > room.before:
        return Verdict.DOES_NOT_FIT, f"the weights take {loaded} of each GPU, {gib(room.before)} are free"
    if room.tokens <= 0:
        short = f"the weights ({loaded}) leave no KV cache at fraction {sizes.fraction:.3f}"
        return Verdict.DOES_NOT_FIT, f"{short}; above {least:.3f} a first token fits"
    surely = needed[0].size_bytes + SURELY_NEEDED_MIB * MIB
    if room.free + room.optional < surely:
        return (
            Verdict.DOES_NOT_FIT,
            f"{free} would be free when it is ready, and one prefill chunk needs {gib(surely)}",
        )
    wanted = sum(amount.size_bytes for amount in needed)
    if room.free < wanted:
        return Verdict.TIGHT, f"{free} would be free when it is ready, {gib(wanted)} may be needed"
    if room.skipped:
        missing = " and ".join(room.skipped)
        return (
            Verdict.TIGHT,
            f"so little is left that the engine leaves out its {missing}; {free} will be free",
        )
    if room.tokens < sizes.context_length:
        held = f"the KV cache holds {room.tokens} tokens"
        return Verdict.TIGHT, f"{held}, less than one request of {sizes.context_length}"
    return Verdict.FITS, f"{free} will be free when it is ready, {gib(wanted)} may be needed"


def advise(room: Room, sizes: EngineSizes, *, needed: tuple[Amount, ...], most: float) -> tuple[str, ...]:
    """What would use the memory better, most useful first; no fraction above ``most`` is advised."""
    wanted = sum(amount.size_bytes for amount in needed)
    best = int((sizes.fraction + (room.free - wanted) / room.before) * 100) / 100
    best = min(best, max(most, sizes.fraction if best > sizes.fraction else 0.0))
    least = room.loaded / room.before
    found: list[str] = []
    if least > NEARLY_ALL:
        found.append("more GPUs (parallel.tp or pp), GPUs with more memory, or a smaller checkpoint")
    elif best <= least:
        found.append(
            "lower engine.graph_max_bs, max_running_requests, context_length or chunked_prefill_size"
        )
        found.append("more GPUs (parallel.tp or pp), or GPUs with more memory")
    elif abs(best - sizes.fraction) >= 0.01 and 0 < best < 1:
        found.append(f"engine.mem_fraction_static {best:.2f} uses the memory best by this arithmetic")
    if 0 < room.tokens < sizes.context_length:
        longest = max(room.tokens // 1024 * 1024, 1)
        found.append(f"engine.context_length {longest} is the longest that one request can use")
    if sizes.kv_bytes > 1 and 0 < room.tokens < 2 * sizes.context_length:
        found.append(f"engine.kv_cache_dtype {FP8} holds twice the tokens")
    return tuple(found)


def gib(size_bytes: int) -> str:
    """``71.87 GiB``."""
    return f"{size_bytes / 1024**3:.2f} GiB"
