"""What is the exact argv of the engine in its container?"""

from __future__ import annotations

from kitctl.errors import Exit, KitError
from kitctl.kit.overlay import FlagValue, Overlay
from kitctl.kit.stack import Stack
from kitctl.plan.flag_spelling import Spellings, engine_argv
from kitctl.plan.types import PlannedModel

MODELS_ROOT = "/models"
CONTAINER_BIND = "0.0.0.0"


def plan_argv(
    stack: Stack,
    *,
    kit: tuple[Spellings, tuple[Overlay, ...]],
    release: str | None,
    models: tuple[PlannedModel, ...],
    container_port: int,
    engine_flags: tuple[str, ...],
    max_total_tokens: int | None,
) -> tuple[str, ...]:
    """The flags of the launch: settings, overlay flags, then what the user gave after ``--``.

    Raises KitError ``flag-owned-by-kitctl`` (exit 2) when a flag after ``--`` is one that the plan sets.
    """
    spellings, overlays = kit
    flags: dict[str, FlagValue] = {}
    for overlay in overlays:
        flags |= overlay.block.flags
        flags |= overlay.block.flags_above_tp2 if stack.parallel.tp > 2 else {}
    paths = {model.role: engine_path(model) for model in models}
    argv = engine_argv(
        stack,
        spellings=spellings,
        release=release or "",
        model_path=paths["target"],
        drafter_path=paths.get("drafter"),
        port=container_port,
        bind=CONTAINER_BIND,
        overlay_flags=flags,
        max_total_tokens=max_total_tokens,
    )
    _refuse_owned(argv, engine_flags)
    return (*argv, *engine_flags)


def model_target(model: PlannedModel) -> str:
    """Where a model's folder is mounted in the container."""
    return f"{MODELS_ROOT}/{model.model.replace('/', '--')}"


def engine_path(model: PlannedModel) -> str:
    """The model's path as the engine sees it."""
    folder = model_target(model)
    return f"{folder}/{model.inner}" if model.inner else folder


def _refuse_owned(argv: tuple[str, ...], given: tuple[str, ...]) -> None:
    owned = {word for word in argv if word.startswith("--")}
    for word in given:
        name = word.partition("=")[0]
        if name in owned or name in ("--api-key", "--config"):
            raise KitError(
                "flag-owned-by-kitctl",
                f"{name} is set by the plan and may not be given after --",
                remedy="change the stack's setting instead: --set engine.…=…, --port, --bind or --api-key-file",
                exit_code=Exit.USAGE,
            )
