"""How is a lock written, so that the same models always give the same text and a change is a short diff?"""

from __future__ import annotations

import json

from kitctl.kit.models_lock import LOCK_VERSION, LockedFile, ModelEntry, ModelsLock

HEADER = """\
# The models that this kit serves: written by 'kitctl models lock' and 'kitctl models add', read by all.
# One table a model, one line a file. state = "reconstructed": facts that public sources state, no files yet.
"""
_FIELDS = (
    "state",
    "commit",
    "revision",
    "locked_on",
    "licence",
    "gated",
    "drafter_for",
    "path",
    "stated_size_bytes",
    "note",
)


def write_models_lock(lock: ModelsLock) -> str:
    """The text of ``lock``: models by name, files by path; ``read_models_lock`` gives the lock back."""
    parts = [HEADER, f"version = {LOCK_VERSION}\n"]
    parts += [_entry_text(entry) for entry in sorted(lock.models, key=lambda entry: entry.repo)]
    return "\n".join(parts)


def _entry_text(entry: ModelEntry) -> str:
    lines = [f"[models.{_quoted(entry.repo)}]"]
    for field in _FIELDS:
        value = getattr(entry, field)
        if value is not None:
            lines.append(f"{field} = {_value(value)}")
    if entry.config_json is not None:
        lines.append(f"config_json = {_block(entry.config_json)}")
    if entry.files:
        lines.append("files = [")
        lines.extend(_file_line(file) for file in sorted(entry.files, key=lambda file: file.path))
        lines.append("]")
    return "\n".join(lines) + "\n"


def _file_line(file: LockedFile) -> str:
    kind, digest = ("sha256", file.sha256) if file.sha256 else ("git_sha1", file.git_sha1)
    return (
        f"  {{ path = {_quoted(file.path)}, size_bytes = {file.size_bytes}, "
        f'role = "{file.role}", {kind} = "{digest}" }},'
    )


def _value(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _quoted(value)


def _quoted(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for DEL and lone surrogates."""
    escaped = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
    return escaped.encode("utf-8", "replace").decode()


def _block(text: str) -> str:
    """Literal lines where TOML allows them, so that a change of a configuration shows line by line."""
    plain = all(char == "\n" or char == "\t" or char.isprintable() for char in text)
    if not plain or "'''" in text or text.endswith("'"):
        return _quoted(text)
    return f"'''\n{text}'''"
