"""Read the data files that the package carries."""

from __future__ import annotations

from importlib.resources import files


def package_text(name: str) -> str:
    """The text of ``kitctl/data/<name>``."""
    return files("kitctl.data").joinpath(name).read_text(encoding="utf-8")
