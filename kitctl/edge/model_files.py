"""Read what the files of a model say of it: config.json and the headers of its weights."""

from __future__ import annotations

from pathlib import Path

from kitctl.edge.files import read_text, read_text_if_there
from kitctl.edge.hub import read_hub_model, read_small_file
from kitctl.edge.store_files import read_header
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import ModelEntry
from kitctl.store.hub_model import entry_of
from kitctl.store.safetensors import HeaderFaultError


def config_in(folder: str) -> str | None:
    """The text of the folder's config.json, ``None`` without one."""
    return read_text_if_there(f"{folder}/config.json")


def is_model_folder(path: str) -> bool:
    """Whether ``path`` is a folder with a config.json."""
    return (Path(path).expanduser() / "config.json").is_file()


def read_config(folder: str) -> str:
    """The text of the folder's config.json. Raises KitError ``file-unreadable`` (exit 2)."""
    return read_text(str(Path(folder).expanduser() / "config.json"))


def bytes_by_dtype_in(folder: str) -> dict[str, int] | None:
    """Bytes by data type over the folder's safetensors files; ``None`` when there is none that can be read."""
    sums: dict[str, int] = {}
    try:
        for path in sorted(Path(folder).expanduser().glob("*.safetensors")):
            for dtype, count in read_header(path).bytes_by_dtype.items():
                sums[dtype] = sums.get(dtype, 0) + count
    except (HeaderFaultError, OSError):
        return None
    return sums or None


def candidate_from_hub(repo: str, revision: str) -> tuple[ModelEntry, str]:
    """The entry that ``models lock`` would write, and the hub's config.json; reads small files only.

    Raises KitError ``hub-*`` or ``no-config`` (exit 5).
    """
    model = read_hub_model(repo, revision, say=lambda line: None)
    entry = entry_of(model, revision=revision, locked_on="", config_json=None)
    file = next((file for file in entry.files if file.path == "config.json"), None)
    if file is None:
        raise KitError(
            "no-config",
            f"{repo} has no config.json on the hub",
            remedy="name a repository that holds a model in the format of transformers",
            exit_code=Exit.FETCH,
        )
    return entry, read_small_file(entry, file).decode("utf-8", "replace")
