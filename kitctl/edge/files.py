"""Read and write files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kitctl.errors import Exit, KitError


def read_text(path: str) -> str:
    """The file's text (UTF-8). Raises KitError ``file-unreadable`` (exit 2) when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise unreadable(path, broken) from broken


def unreadable(path: str, broken: OSError | UnicodeDecodeError) -> KitError:
    """The error of a file that cannot be read as text: ``file-unreadable`` (exit 2)."""
    why, remedy = _why_unreadable(path, broken)
    return KitError(
        "file-unreadable",
        f"{path} cannot be read: {why}",
        remedy=remedy,
        exit_code=Exit.USAGE,
    )


def _why_unreadable(path: str, broken: OSError | UnicodeDecodeError) -> tuple[str, str]:
    """Why a file cannot be read, and what mends it."""
    if isinstance(broken, FileNotFoundError):
        return "there is no such file", f"see 'ls {Path(path).parent}' for what is there, and name a file"
    if isinstance(broken, IsADirectoryError):
        return "it is a folder", f"name a file in {path}"
    if isinstance(broken, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {broken.start})", f"see 'file {path}' for what it is"
    return broken.strerror or str(broken), f"make {path} readable by you"


def read_text_if_there(path: str) -> str | None:
    """The file's text, or ``None`` when there is no such file, or none any more by the time it is read."""
    if not Path(path).is_file():
        return None
    try:
        return read_text(path)
    except KitError:
        if Path(path).exists():
            raise
        return None


def write_atomic(path: str, text: str, *, mode: int = 0o644) -> None:
    """Write beside and rename into place, flushed to disk; parents are made. Mode is the file's own.

    Raises KitError ``file-unwritable`` (exit 2) when the place cannot be written; the old file then stands.
    """
    target = Path(path)
    with writing(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            Path(beside).chmod(mode)
            Path(beside).replace(target)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise


def require_place(path: str | None) -> None:
    """See that a file can be written there before the work whose result it will hold; makes nothing.

    Raises KitError (exit 2): ``no-such-folder``, ``output-is-folder``, ``file-unwritable``.
    """
    if not path:
        return
    place = Path(path)
    folder = place.parent
    if not folder.is_dir():
        raise KitError(
            "no-such-folder",
            f"{path} cannot be written: there is no folder {folder}",
            remedy=f"mkdir -p {folder}, or name a file in a folder that exists",
            exit_code=Exit.USAGE,
        )
    if place.is_dir():
        raise KitError(
            "output-is-folder",
            f"{path} is a folder",
            remedy=f"name a file in it: {place / 'NAME'}",
            exit_code=Exit.USAGE,
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise KitError(
            "file-unwritable",
            f"{path} cannot be written: {folder} is not yours to write",
            remedy=f"make {folder} writable, or name a file in another folder",
            exit_code=Exit.USAGE,
        )


def holds_anything(path: str) -> bool:
    """Whether there is such a file and a byte in it."""
    return Path(path).is_file() and Path(path).stat().st_size > 0


def require_new_file(path: str | None) -> None:
    """Raises KitError as ``require_place``, and ``result-exists`` when the file holds something already (exit 2)."""
    require_place(path)
    if path and holds_anything(path):
        raise KitError(
            "result-exists",
            f"{path} holds something already, and is not overwritten",
            remedy=f"give another -o FILE, or remove it (rm {path})",
            exit_code=Exit.USAGE,
        )


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn what the disk refuses in the block into KitError ``file-unwritable`` (exit 2) for ``path``."""
    try:
        yield
    except OSError as refused:
        why, remedy = _why_unwritable(path, refused)
        raise KitError(
            "file-unwritable",
            f"{path} cannot be written: {why}",
            remedy=remedy,
            exit_code=Exit.USAGE,
        ) from refused


def _why_unwritable(path: str, refused: OSError) -> tuple[str, str]:
    """Why a file cannot be written, without the name of the one written beside it, and what mends it.

    Two names are a rename's: the folder took the new file, and what stands in its place does not yield.
    """
    why = refused.strerror or str(refused)
    if refused.filename2 is not None:
        look = f"see 'lsattr {path}' and 'ls -l {path}' for what keeps it, or name another file"
        return f"what is there cannot be replaced: {why}", look
    place = Path(str(refused.filename or path))
    if place != Path(path) and not place.name.startswith(f".{Path(path).name}."):
        why = f"{why}: {place}"
    return why, f"make {Path(path).parent} writable and see that its disk has room"


def list_files(folder: str, suffix: str) -> tuple[str, ...]:
    """Sorted paths of the files in ``folder`` whose name ends in ``suffix``; empty without the folder."""
    where = Path(folder)
    return tuple(sorted(str(path) for path in where.glob(f"*{suffix}") if path.is_file()))


def is_there(path: str) -> bool:
    """Whether there is such a file or folder."""
    return Path(path).exists()


def absolute(path: str) -> str:
    """The path from the root, with ``~``, ``..`` and links resolved.

    Raises KitError ``path-leads-nowhere`` (exit 2) for links that lead in a circle and for the ``~`` of nobody.
    """
    try:
        return str(Path(path).expanduser().resolve())
    except (OSError, RuntimeError) as lost:
        raise KitError(
            "path-leads-nowhere",
            f"{path} leads to no file or folder: {lost}",
            remedy=f"see with 'ls -l {path}' where it leads, and name the folder itself",
            exit_code=Exit.USAGE,
        ) from lost
