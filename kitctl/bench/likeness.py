"""Are two results of the same model, on the same hardware, by the same engine? As far as their heads tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kitctl.bench.results import Head, ResultFile
from kitctl.finding import Finding, Severity

_PUBLISHED = re.compile(r"(?P<model>\S+) on (?P<gpus>\d+x [^,(]+)")
_HASH = re.compile(r"[0-9a-f]{40}")


def unlike(results: Sequence[ResultFile]) -> tuple[Finding, ...]:
    """What else than the stack differs from the first result: model, hardware, engine. Unknown is not different."""
    base, *others = results
    return tuple(found for other in others for found in _notes(base.head, other.head))


def _notes(left: Head, right: Head) -> Iterable[Finding]:
    yield from _difference(
        "other-model",
        (left, right),
        model_of,
        Severity.WARN,
        words="served different models",
        remedy="measure both with the same model",
    )
    yield from _difference(
        "other-hardware",
        (left, right),
        hardware_of,
        Severity.NOTE,
        words="ran on different hardware",
        remedy="read the change as that of the hardware too, or measure both on the same",
    )
    yield from _difference(
        "other-engine",
        (left, right),
        engine_of,
        Severity.NOTE,
        words="ran on different builds of the engine",
        remedy="read the change as that of the engine too, or measure both with the same pins",
    )


def _difference(
    code: str,
    heads: tuple[Head, Head],
    fact_of: Callable[[Head], str | None],
    severity: Severity,
    *,
    words: str,
    remedy: str,
) -> Iterable[Finding]:
    """That a fact of two results differs, when both are known."""
    left, right = heads
    ours, theirs = fact_of(left), fact_of(right)
    if ours is not None and theirs is not None and ours.casefold() != theirs.casefold():
        yield Finding(
            code=code,
            severity=severity,
            cause=f"{left.label} and {right.label} {words}",
            evidence=(f"{left.label}: {ours}", f"{right.label}: {theirs}"),
            remedy=remedy,
        )


def model_of(head: Head) -> str | None:
    """The model's name without folders: as it was asked for, as served, or as the published line has it."""
    if (found := _published(head)) is not None:
        return found["model"]
    server = head.server or {}
    named = [head.spec.model if head.spec is not None else None, *(head.served_models or ())[:1]]
    named += [server.get("served_model_name"), server.get("model_path")]
    name = next((str(one) for one in named if one), "").rstrip("/").rsplit("/", 1)[-1]
    return name if name and not _HASH.fullmatch(name) else None


def hardware_of(head: Head) -> str | None:
    """``8x NVIDIA H200``, ``CPU``, or ``None`` when the head does not tell."""
    if (found := _published(head)) is not None:
        return found["gpus"].strip()
    if (head.server or {}).get("device") == "cpu":
        return "CPU"
    record = head.run_record or {}
    gpus = [gpu for gpu in _list(_dict(record.get("facts")).get("gpus")) if isinstance(gpu, Mapping)]
    taken = _list(_dict(_dict(record.get("plan")).get("gpus")).get("indices"))
    names = [str(gpu.get("name")) for gpu in gpus if gpu.get("index") in taken]
    if not names:
        return None
    return " and ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))


def engine_of(head: Head) -> str | None:
    """The engine's own version, followed by the hash of the pins that it was built from, as far as known."""
    version = (head.server or {}).get("version")
    pins = _dict(_dict(_dict(head.run_record).get("plan")).get("image")).get("pins_hash")
    facts = [str(version)] if version else []
    facts += [f"pins {str(pins)[:12]}"] if pins else []
    return ", ".join(facts) or None


def _published(head: Head) -> re.Match[str] | None:
    return _PUBLISHED.match(head.source or "") if head.kind == "published" else None


def _dict(tree: Any) -> Mapping[str, Any]:
    return tree if isinstance(tree, Mapping) else {}


def _list(tree: Any) -> Sequence[Any]:
    return tree if isinstance(tree, list | tuple) else ()
