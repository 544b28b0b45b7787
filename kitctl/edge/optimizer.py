"""Which settings should be tried next, and is a trial worth going on with? Optuna decides; this translates.

TPE over the index of each ordered value, seeded; the median of earlier trials at the same repeat stops a bad arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kitctl.errors import Exit, KitError

STARTUP_TRIALS = 4
STARTUP_BEFORE_STOPPING = 3

Setting = str | int | float | bool


class Optimizer:
    """A study in memory. ``space``: values by setting, in order. Raises KitError ``no-optimizer`` (exit 2)."""

    def __init__(self, space: Mapping[str, Sequence[Setting]], *, more_is_better: bool, seed: int) -> None:
        self._optuna = _optuna()
        self._space = {path: tuple(values) for path, values in space.items()}
        self._study = self._optuna.create_study(
            direction="maximize" if more_is_better else "minimize",
            sampler=self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
            pruner=self._optuna.pruners.MedianPruner(
                n_startup_trials=STARTUP_BEFORE_STOPPING, n_warmup_steps=0
            ),
        )
        self._open: Any = None

    def begin(self, settings: Mapping[str, Setting]) -> None:
        """Let these settings be asked next."""
        self._study.enqueue_trial(self._indices(settings))

    def ask(self) -> dict[str, Setting]:
        """The next settings to try."""
        self._open = self._study.ask()
        picked = {
            path: self._open.suggest_int(path, 0, len(values) - 1) for path, values in self._space.items()
        }
        return {path: self._space[path][index] for path, index in picked.items()}

    def is_losing(self, values: Sequence[float]) -> bool:
        """Whether the trial asked last is worse than the median of the others after as many repeats."""
        step = len(values) - 1
        self._open.report(sum(values) / len(values), step)
        return bool(self._open.should_prune())

    def tell(self, value: float | None, *, outcome: str) -> None:
        """How the trial asked last ended: ``complete``, ``stopped`` or ``failed``."""
        states = self._optuna.trial.TrialState
        state = {"complete": states.COMPLETE, "stopped": states.PRUNED, "failed": states.FAIL}[outcome]
        self._study.tell(self._open, value if outcome == "complete" else None, state=state)

    def remember(
        self, settings: Mapping[str, Setting], values: Sequence[float], *, value: float | None, outcome: str
    ) -> None:
        """A trial of an earlier session."""
        self.begin(settings)
        self.ask()
        for count in range(1, len(values) + 1):
            self._open.report(sum(values[:count]) / count, count - 1)
        self.tell(value, outcome=outcome)

    def _indices(self, settings: Mapping[str, Setting]) -> dict[str, int]:
        return {path: self._space[path].index(value) for path, value in settings.items()}


def require_optimizer() -> None:
    """Raises KitError ``no-optimizer`` (exit 2) when the library is not installed."""
    _optuna()


def _optuna() -> Any:
    import warnings

    try:
        import optuna
    except ImportError as missing:
        raise KitError(
            "no-optimizer",
            "the optimizer that searches settings is not installed",
            evidence=(str(missing),),
            remedy="pip install 'kitctl[tune]'",
            exit_code=Exit.USAGE,
        ) from missing
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
