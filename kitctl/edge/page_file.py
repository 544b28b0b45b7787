"""Where may a page be written so that no result is lost by it?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kitctl.errors import Exit, KitError

_PAGE_BEGINS = b"<!doctype html"


def require_page_place(path: str | None, inputs: Iterable[str]) -> None:
    """Raises KitError ``output-is-input`` or ``output-is-no-page`` (exit 2) for the place of an input, or of what is no
    page. A page that is there is replaced.
    """
    if not path or not Path(path).exists():
        return
    place = Path(path)
    if same := next((name for name in inputs if Path(name).exists() and place.samefile(name)), None):
        raise KitError(
            "output-is-input",
            f"{path} is the result file {same}, which the page would replace",
            remedy="name another file for the page",
            exit_code=Exit.USAGE,
        )
    if not _is_page(place):
        raise KitError(
            "output-is-no-page",
            f"{path} is there and is no HTML page, so it is not replaced",
            remedy="name another file for the page, or remove that one first",
            exit_code=Exit.USAGE,
        )


def _is_page(place: Path) -> bool:
    """Whether it is a regular file, empty or with an HTML page in it."""
    if not place.is_file():
        return False
    try:
        with place.open("rb") as page:
            begin = page.read(256).lstrip()
    except OSError:
        return False
    return not begin or begin.lower().startswith(_PAGE_BEGINS)
