"""``accept --without`` and ``--with``: the sweeps behind a speed-up, read before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.bench.acceptance import Acceptance
from kitctl.bench.compare import comparability
from kitctl.bench.results import ResultFile
from kitctl.bench.speedup import SpeedModel, fit_speedup, predict_from_plain, shared_concurrencies
from kitctl.commands.result_reading import read_sweep, require_comparable
from kitctl.errors import Exit, KitError


@dataclass(frozen=True, kw_only=True)
class Sweeps:
    """The sweeps without and with drafter, as far as they were given."""

    plain: ResultFile | None = None
    drafted: ResultFile | None = None


def read_speedup_sweeps(without: str | None, drafted: str | None) -> Sweeps:
    """The sweeps in the files.

    Raises KitError (exit 2): ``no-baseline``, what ``read_sweep`` raises, ``nothing-to-fit`` for sweeps that share
    fewer than two concurrencies; ``not-comparable`` (exit 3) for sweeps under different loads.
    """
    if drafted and not without:
        raise KitError(
            "no-baseline",
            "the speed-up model needs a sweep without drafter beside the one with it",
            remedy="give --without FILE too, a result of 'kitctl bench' on the stack without drafter",
            exit_code=Exit.USAGE,
        )
    found = Sweeps(
        plain=read_sweep(without) if without else None, drafted=read_sweep(drafted) if drafted else None
    )
    if found.plain is not None and found.drafted is not None:
        require_comparable(comparability((found.plain, found.drafted)))
        _require_shared(found.plain, found.drafted)
    return found


def _require_shared(plain: ResultFile, drafted: ResultFile) -> None:
    shared = shared_concurrencies(plain.points, drafted.points)
    if len(shared) >= 2:
        return
    raise KitError(
        "nothing-to-fit",
        "the speed-up model needs two concurrencies that are valid in the sweeps with and without drafter",
        evidence=(f"both have: {', '.join(f'C={one}' for one in shared) or 'none'}",),
        remedy="measure both at the same two concurrencies or more: kitctl bench --concurrency 1,8,32",
        exit_code=Exit.USAGE,
    )


def model_of(sweeps: Sweeps, point: Acceptance) -> SpeedModel | None:
    """The speed-up model of both sweeps and the accept length measured now; ``None`` without both."""
    if sweeps.plain is None or sweeps.drafted is None:
        return None
    return fit_speedup(sweeps.plain.points, sweeps.drafted.points, tau=point.overall.accept_length)


def prediction_of(sweeps: Sweeps, point: Acceptance) -> dict[int, float]:
    """Speed-ups to expect by concurrency, from a sweep without drafter alone and the accept length measured now."""
    if sweeps.plain is None or sweeps.drafted is not None:
        return {}
    plain = {
        point.concurrency: point.output_tokens_per_s
        for point in sweeps.plain.points
        if point.concurrency is not None and point.valid and point.output_tokens_per_s
    }
    return predict_from_plain(plain, tau=point.overall.accept_length, block=max(1, len(point.histogram)))
