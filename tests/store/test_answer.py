"""What a hub's answer allows, judged by status and headers alone."""

from __future__ import annotations

import pytest

from kitctl.kit.models_lock import FileRole, LockedFile, LockState, ModelEntry
from kitctl.store.answer import Answer, Refuse, Take, TryLater, judge_answer, wait_named

LARGE = LockedFile(path="a.safetensors", size_bytes=100, role=FileRole.WEIGHTS, sha256="c" * 64)
SMALL = LockedFile(path="config.json", size_bytes=100, role=FileRole.CONFIG, git_sha1="d" * 40)
ENTRY = ModelEntry(repo="org/x", state=LockState.LOCKED, commit="a" * 40, files=(LARGE, SMALL))


def judge(
    status: int,
    first: dict[str, str] | None = None,
    last: dict[str, str] | None = None,
    *,
    start: int = 0,
    redirected: bool = True,
    file: LockedFile = LARGE,
) -> Take | TryLater | Refuse:
    answer = Answer(status=status, first=first or {}, last=last or {}, was_redirected=redirected)
    return judge_answer(answer, ENTRY, file, start=start)


@pytest.mark.parametrize(
    ("status", "last", "start", "skip"),
    [
        (200, {"content-length": "100"}, 0, 0),
        (200, {"content-length": "100"}, 40, 40),
        (206, {"content-range": "bytes 40-99/100"}, 40, 0),
        (206, {"content-range": "bytes 32-99/100"}, 40, 8),
        (206, {"content-range": "bytes 40-99/*"}, 40, 0),
        (200, {"content-length": "7", "content-encoding": "gzip"}, 0, 0),
    ],
)
def test_bytes_are_taken_from_where_the_part_ends(
    status: int, last: dict[str, str], start: int, skip: int
) -> None:
    assert judge(status, last=last, start=start) == Take(skip_bytes=skip)


def test_a_range_that_begins_later_is_asked_for_again() -> None:
    found = judge(206, last={"content-range": "bytes 50-99/100"}, start=40)
    assert found == TryLater(reason="the server sent another range: 'bytes 50-99/100'")


@pytest.mark.parametrize(
    ("first", "last", "how"),
    [
        ({"x-repo-commit": "b" * 40}, {}, f"commit {'b' * 40}, models.lock says {'a' * 40}"),
        ({"x-linked-etag": f'"{"e" * 64}"'}, {}, f"hash {'e' * 64}, models.lock says {'c' * 64}"),
        ({"x-linked-size": "99"}, {}, "99 bytes, models.lock says 100"),
        ({}, {"content-length": "99"}, "99 bytes, models.lock says 100"),
    ],
)
def test_another_file_is_refused(first: dict[str, str], last: dict[str, str], how: str) -> None:
    found = judge(200, first, last)
    assert isinstance(found, Refuse)
    assert (found.code, found.evidence) == ("file-changed", (f"the hub has {how}",))


def test_the_storages_own_tag_says_nothing() -> None:
    assert judge(200, {"etag": f'"{"f" * 40}"'}, file=SMALL) == Take(skip_bytes=0)
    assert isinstance(judge(200, {"etag": f'W/"{"f" * 40}"'}, file=SMALL, redirected=False), Refuse)


def test_no_bytes_behind_the_part_means_another_file() -> None:
    found = judge(416, last={"content-range": "bytes */100"}, start=120)
    assert isinstance(found, Refuse)
    assert (found.code, found.evidence) == ("file-changed", ("the hub has no bytes from 120 on",))


@pytest.mark.parametrize(
    ("status", "headers", "redirected", "code"),
    [
        (403, {"x-error-code": "GatedRepo"}, False, "hub-gated"),
        (401, {"x-error-code": "GatedRepo"}, False, "hub-gated"),
        (403, {}, False, "hub-gated"),
        (401, {}, False, "hub-token"),
        (404, {}, True, "file-gone"),
        (410, {}, True, "file-gone"),
        (400, {}, True, "hub-refused"),
    ],
)
def test_refusals_have_a_code_each(status: int, headers: dict[str, str], redirected: bool, code: str) -> None:
    found = judge(status, headers, headers, redirected=redirected)
    assert isinstance(found, Refuse)
    assert found.code == code


def test_a_storage_that_forbids_wants_a_fresh_link() -> None:
    assert isinstance(judge(403, redirected=True), TryLater)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "Sun, 29 Nov 2026 15:00:30 GMT", "date": "Sun, 29 Nov 2026 15:00:00 GMT"}, 30.0),
        ({"retry-after": "Sun, 29 Nov 2026 15:00:00 GMT", "date": "Sun, 29 Nov 2026 15:00:09 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"ratelimit": '"api";r=0;t=55'}, 55.0),
        ({}, None),
    ],
)
def test_the_time_to_wait_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_named(headers) == seconds
    assert judge(429, last=headers) == TryLater(reason="the server answered 429", wait_s=seconds)
