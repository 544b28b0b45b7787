"""Which API key is meant? One word, from a file or the environment; a failure never tells it."""

from __future__ import annotations

from kitctl.edge.environment import variable
from kitctl.edge.files import read_text
from kitctl.errors import Exit, KitError

VARIABLE = "KITCTL_API_KEY"


def read_api_key(path: str) -> str:
    """The API key in a file. Raises KitError ``file-unreadable`` or ``bad-api-key`` (exit 2)."""
    return _one_word(read_text(path), holder=path)


def client_key(path: str | None) -> str | None:
    """The key that a client sends: of the file, else of the environment; ``None`` without either.

    Raises KitError ``file-unreadable`` or ``bad-api-key`` (exit 2).
    """
    if path is not None:
        return read_api_key(path)
    text = variable(VARIABLE)
    return _one_word(text, holder=VARIABLE) if text is not None else None


def _one_word(text: str, *, holder: str) -> str:
    key = text.strip()
    if not key or len(key.split()) != 1:
        raise KitError(
            "bad-api-key",
            f"{holder} must hold one key, without blanks",
            remedy="write one, for example: openssl rand -hex 32",
            exit_code=Exit.USAGE,
        )
    return key
