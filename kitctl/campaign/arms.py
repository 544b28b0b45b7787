"""Which configurations does a campaign compare? Stacks times the combinations of its matrix."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping

import msgspec

from kitctl.kit.campaign import Campaign, Scalar

DRAFTER = "drafter."


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration: a stack with settings over it. ``id`` is its name in keys and tables."""

    id: str
    stack: str
    settings: tuple[tuple[str, Scalar], ...] = ()
    has_drafter: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The settings as ``--set`` takes them."""
        return setting_words(self.settings)


def setting_words(settings: Iterable[tuple[str, Scalar]]) -> tuple[str, ...]:
    """Settings as ``PATH=VALUE`` that YAML reads back as they were."""
    return tuple(f"{path}={_word(value)}" for path, value in settings)


def _word(value: Scalar) -> str:
    return value if isinstance(value, str) and not _looks_like_number(value) else json.dumps(value)


def _looks_like_number(text: str) -> bool:
    return text in ("true", "false", "null") or text.replace(".", "", 1).replace("-", "", 1).isdigit()


def expand_arms(campaign: Campaign, *, drafters: Mapping[str, bool]) -> tuple[Arm, ...]:
    """All arms in the file's order. ``drafters``: whether a stack has one; ``drafter.*`` is tried on those alone."""
    arms: list[Arm] = []
    for stack in campaign.stacks:
        axes = {
            path: values
            for path, values in campaign.matrix.items()
            if drafters[stack] or not path.startswith(DRAFTER)
        }
        for values in itertools.product(*axes.values()):
            settings = tuple(zip(axes, values, strict=True))
            arms.append(
                Arm(
                    id=arm_id(stack, settings),
                    stack=stack,
                    settings=settings,
                    has_drafter=drafters[stack],
                )
            )
    return tuple(arms)


def arm_id(stack: str, settings: Iterable[tuple[str, Scalar]]) -> str:
    """``ep4-dflash`` or ``ep4-dflash[block_size=4,graphs=off]``."""
    words = [f"{path.rpartition('.')[2]}={_word(value)}" for path, value in settings]
    return f"{stack}[{','.join(words)}]" if words else stack


def plain_arm(arm: Arm, arms: Iterable[Arm], plain: Mapping[str, str]) -> Arm | None:
    """The arm that ``arm``'s greedy answers are compared with: the plain stack under the settings that both have."""
    if arm.stack not in plain:
        return None
    shared = tuple((path, value) for path, value in arm.settings if not path.startswith(DRAFTER))
    return next((a for a in arms if a.stack == plain[arm.stack] and a.settings == shared), None)
