"""Read the data files that the package carries."""

from __future__ import annotations

from importlib.resources import files


def package_text(name: str) -> str:
    """The text of ``kitctl/data/<name>``."""
    return files("kitctl.data").joinpath(name).read_text(encoding="utf-8")


def package_set(folder: str, name: str) -> str | None:
    """The text of the kit's own set ``name`` in ``prompts`` or ``quality``; ``None`` for a name without one."""
    return package_text_if_there(f"{folder}/{name}.jsonl") if name.isidentifier() else None


def package_path(name: str) -> str:
    """Where ``kitctl/data/<name>`` lies, for the commands that renew the kit's own data."""
    return str(files("kitctl.data").joinpath(name))


def package_text_if_there(name: str) -> str | None:
    """The text of ``kitctl/data/<name>``, or ``None`` when the package carries no such file."""
    found = files("kitctl.data").joinpath(name)
    return found.read_text(encoding="utf-8") if found.is_file() else None
