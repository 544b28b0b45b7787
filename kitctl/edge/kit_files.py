"""Find the kit's folder and read its text files."""

from __future__ import annotations

from pathlib import Path

import kitctl
from kitctl.edge.environment import config_dir
from kitctl.edge.files import absolute, read_text
from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import KitTexts

_LOCK_NAME = "models.lock"


def find_kit(kit_dir: str | None) -> str:
    """The kit's folder: ``--kit``, the nearest parent with a models.lock, or the copy beside the package.

    Raises KitError ``no-kit`` (exit 2) when the folder named holds no models.lock.
    """
    if kit_dir is not None:
        if not (Path(kit_dir) / _LOCK_NAME).is_file():
            raise _no_kit(kit_dir)
        return absolute(kit_dir)
    here = Path.cwd()
    package = Path(kitctl.__file__).parent
    for folder in (here, *here.parents, package / "_kit", package.parent):
        if (folder / _LOCK_NAME).is_file() and (folder / "compose" / "base.yaml").is_file():
            return str(folder)
    raise _no_kit(str(here))


def load_kit_texts(kit: str) -> KitTexts:
    """The compose files of the kit and the user's own stacks, parts and overlays, with what their add-ons mount."""
    own = Path(config_dir())
    return KitTexts(
        kit=_yaml_below(Path(kit), "compose") | _files_below(Path(kit), "compose/addons"),
        user=_yaml_below(own, ".") | _files_below(own, "addons"),
    )


def load_pin_texts(kit: str, image: str) -> dict[str, str]:
    """``pins.toml`` and the lock files of every release of ``image``, by path relative to ``images/IMAGE``."""
    root = Path(kit) / "images" / image
    found = [root / "pins.toml", *sorted(root.glob("*/*.txt"))]
    return {str(path.relative_to(root)): read_text(str(path)) for path in found if path.is_file()}


def image_names(kit: str) -> tuple[str, ...]:
    """Images that the kit can build: folders below ``images/`` with a pins.toml."""
    return tuple(sorted(path.parent.name for path in (Path(kit) / "images").glob("*/pins.toml")))


def _yaml_below(root: Path, folder: str) -> dict[str, str]:
    paths = sorted((root / folder).rglob("*.yaml")) if (root / folder).is_dir() else []
    return {str(path.relative_to(root)): read_text(str(path)) for path in paths if path.is_file()}


def _files_below(root: Path, folder: str) -> dict[str, str]:
    paths = sorted((root / folder).glob("*/*")) if (root / folder).is_dir() else []
    return {str(path.relative_to(root)): read_text(str(path)) for path in paths if path.is_file()}


def _no_kit(where: str) -> KitError:
    return KitError(
        "no-kit",
        f"there is no kit at {where}: no models.lock with a compose folder beside it",
        remedy="name the kit's folder with --kit or KITCTL_KIT",
        exit_code=Exit.USAGE,
    )
