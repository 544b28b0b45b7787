"""May these bytes be taken: what does a hub's answer to a request for a file's bytes say?

``judge_answer`` looks at status and headers alone, before the first byte is read. Headers as the Hugging Face
hub sends them (huggingface_hub 2.4): ``X-Repo-Commit``, ``X-Linked-Etag`` and ``X-Linked-Size`` on the first
answer, ``X-Error-Code`` on a refusal, ``Retry-After`` or ``RateLimit: ...;t=SECONDS`` on "too many requests".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from kitctl.kit.models_lock import LockedFile, ModelEntry

_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<size>\d+|\*)")
_RESET = re.compile(r";\s*t=(?P<seconds>\d+)")
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TRY_LATER = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back: ``first`` the hub's own headers, ``last`` those of the server that has the bytes.

    Header names are in lower case. ``was_redirected``: ``last`` is another server's.
    """

    status: int
    first: Mapping[str, str]
    last: Mapping[str, str]
    was_redirected: bool


@dataclass(frozen=True, kw_only=True)
class Take:
    """Take the bytes, but for the first ``skip_bytes``, which are there already."""

    skip_bytes: int


@dataclass(frozen=True, kw_only=True)
class TryLater:
    """Nothing is wrong with the request: ask again, after ``wait_s`` if the server names a time."""

    reason: str
    wait_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """Asking again will not help."""

    code: str
    cause: str
    evidence: tuple[str, ...]
    remedy: str


def judge_answer(
    answer: Answer, entry: ModelEntry, file: LockedFile, *, start: int
) -> Take | TryLater | Refuse:
    """Whether the body holds ``file`` of ``entry`` from byte ``start`` on."""
    if answer.status in _TRY_LATER:
        reason = f"the server answered {answer.status}"
        return TryLater(reason=reason, wait_s=wait_named(answer.last))
    if answer.status == 416 or answer.status in (200, 206):
        changed = _changed(answer, entry, file)
        if changed:
            return _refuse_changed(entry, file, changed)
        return _judge_range(answer, entry, file, start)
    return _judge_refusal(answer, entry, file)


def _judge_range(answer: Answer, entry: ModelEntry, file: LockedFile, start: int) -> Take | TryLater | Refuse:
    if answer.status == 416:
        return _refuse_changed(entry, file, f"no bytes from {start} on")
    if answer.status == 200:
        return Take(skip_bytes=start)
    found = _RANGE.fullmatch(answer.last.get("content-range", ""))
    if found is None or int(found["start"]) > start:
        return TryLater(reason=f"the server sent another range: {answer.last.get('content-range')!r}")
    return Take(skip_bytes=start - int(found["start"]))


def _changed(answer: Answer, entry: ModelEntry, file: LockedFile) -> str | None:
    """In which way the hub's file is not the locked one, ``None`` when nothing says so."""
    commit = answer.first.get("x-repo-commit")
    if entry.commit and commit and commit != entry.commit:
        return f"commit {commit}, models.lock says {entry.commit}"
    tag = _stated_hash(answer)
    if tag and len(tag) == len(file.blob_name) and tag != file.blob_name:
        return f"hash {tag}, models.lock says {file.blob_name}"
    size = _stated_size(answer)
    if size is not None and size != file.size_bytes:
        return f"{size} bytes, models.lock says {file.size_bytes}"
    return None


def _stated_hash(answer: Answer) -> str | None:
    plain = None if answer.was_redirected else answer.first.get("etag")
    tag = (answer.first.get("x-linked-etag") or plain or "").removeprefix("W/").strip('"')
    return tag if _HASH.fullmatch(tag) else None


def _stated_size(answer: Answer) -> int | None:
    """The whole file's size as the answer states it, ``None`` when it does not."""
    linked = answer.first.get("x-linked-size", "")
    found = _RANGE.fullmatch(answer.last.get("content-range", ""))
    length = answer.last.get("content-length", "") if answer.status == 200 else ""
    encoded = answer.last.get("content-encoding", "identity") != "identity"
    for stated in (found["size"] if found else "", "" if encoded else length, linked):
        if stated.isdecimal():
            return int(stated)
    return None


def _refuse_changed(entry: ModelEntry, file: LockedFile, how: str) -> Refuse:
    return Refuse(
        code="file-changed",
        cause=f"{file.path} of {entry.repo} is not the file that models.lock names",
        evidence=(f"the hub has {how}",),
        remedy=f"kitctl models lock {entry.repo}, then look at the change with git diff models.lock",
    )


def _judge_refusal(answer: Answer, entry: ModelEntry, file: LockedFile) -> TryLater | Refuse:
    code = answer.last.get("x-error-code", answer.first.get("x-error-code", ""))
    message = answer.last.get("x-error-message", "")
    evidence = (f"HTTP {answer.status} {code} {message}".rstrip(),)
    if code == "GatedRepo" or (answer.status == 403 and not answer.was_redirected):
        return refuse_gated(entry.repo, evidence)
    if answer.status == 401 and not answer.was_redirected:
        return refuse_token(entry.repo, evidence)
    if answer.status in (401, 403):
        return TryLater(reason=f"the storage server answered {answer.status}: the link to it may be too old")
    if answer.status in (404, 410):
        cause = f"the hub no longer has {file.path} of {entry.repo} at the locked commit"
        remedy = f"kitctl models lock {entry.repo}"
        return Refuse(code="file-gone", cause=cause, evidence=evidence, remedy=remedy)
    cause = f"the hub refuses {file.path} of {entry.repo}"
    return Refuse(
        code="hub-refused", cause=cause, evidence=evidence, remedy="look at HF_ENDPOINT and HF_TOKEN"
    )


def refuse_gated(repo: str, evidence: tuple[str, ...]) -> Refuse:
    """The model's owner wants its conditions accepted first."""
    return Refuse(
        code="hub-gated",
        cause=f"{repo} is gated: this account may not read it",
        evidence=evidence,
        remedy=f"accept the conditions on the hub's page of {repo}, then 'hf auth login' or set HF_TOKEN",
    )


def refuse_token(repo: str, evidence: tuple[str, ...]) -> Refuse:
    """The hub wants a token, or another one."""
    return Refuse(
        code="hub-token",
        cause=f"the hub wants a valid token for {repo}",
        evidence=evidence,
        remedy="'hf auth login', or set HF_TOKEN to a token that may read the model",
    )


def wait_named(headers: Mapping[str, str]) -> float | None:
    """The seconds that ``Retry-After`` (seconds or a date) or ``RateLimit`` asks to wait, else ``None``."""
    after = headers.get("retry-after", "").strip()
    if after.isdecimal():
        return float(after)
    if after:
        return _seconds_until(after, headers.get("date", ""))
    reset = _RESET.search(headers.get("ratelimit", ""))
    return float(reset["seconds"]) if reset else None


def _seconds_until(date: str, now: str) -> float | None:
    try:
        return max(0.0, (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds())
    except (ValueError, TypeError):
        return None
