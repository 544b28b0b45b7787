"""Did the GPUs run freely while a point was measured? Lines of nvidia-smi into one summary."""

from __future__ import annotations

from collections.abc import Sequence

from kitctl.bench.measure import Gpu
from kitctl.bench.statistics import mean

GPU_QUERY = (
    "nvidia-smi",
    "--query-gpu=power.draw,temperature.gpu,clocks.sm,clocks_event_reasons.active",
    "--format=csv,noheader,nounits",
)

# NVML, nvmlClocksEventReasons: the bits that mean a GPU was slower than asked for.
_HELD_BACK = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}


def gpu_of(samples: Sequence[str]) -> Gpu | None:
    """Samples of ``GPU_QUERY`` into a summary; ``None`` when no GPU was seen."""
    rows = [
        cells for sample in samples for line in sample.splitlines() if (cells := _cells(line)) is not None
    ]
    if not rows:
        return None
    per_sample = len(rows) / len(samples)
    powers, heats, clocks = ([row[at] for row in rows if row[at] is not None] for at in range(3))
    reasons = {name for row in rows for bit, name in _HELD_BACK.items() if int(row[3] or 0) & bit}
    return Gpu(
        power_w=mean([value for value in powers if value is not None]) * per_sample if powers else None,
        temperature_c=max((value for value in heats if value is not None), default=None),
        clock_min_mhz=min((value for value in clocks if value is not None), default=None),
        throttled=tuple(sorted(reasons)),
    )


def _cells(line: str) -> tuple[float | None, ...] | None:
    words = [word.strip() for word in line.split(",")]
    if len(words) != 4:
        return None
    return (*(_number(word) for word in words[:3]), _bits(words[3]))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _bits(word: str) -> float | None:
    try:
        return float(int(word, 16))
    except ValueError:
        return None
