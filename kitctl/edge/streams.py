"""Bytes of one file from a hub, from a given offset on: over HTTP with a range, or over Xet."""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, ModelEntry
from kitctl.store.answer import Answer, Refuse, Take, TryLater, judge_answer

if TYPE_CHECKING:
    import requests

CHUNK_BYTES = 1024**2
CONNECT_TIMEOUT_S = 15.0
XET_WINDOW_BYTES = 16 * 1024**2
"""The Xet client buffers up to 392 MB a file, which a kill would lose. It is asked for windows of this size: one is
being fetched, one waits, one is being written, so that a kill loses at most three, 50.3 MB."""
_XET_CACHE_SIZE = "HF_XET_CHUNK_CACHE_SIZE_BYTES"
_URL = re.compile(r" with url: \S+")
"""A storage link carries its own key, so it is not shown."""


class StreamBrokenError(Exception):
    """The stream ended early; asking again from where it stands may help, after ``wait_s`` if it is named."""

    def __init__(self, reason: str, *, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True, kw_only=True)
class XetSource:
    """A file on Xet storage: its Merkle hash, and where to get a token for reading it."""

    file_hash: str
    refresh_url: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where one file's bytes come from: the hub, over Xet where ``xet`` is given, or a ``local`` copy.

    ``headers`` carry the token.
    """

    entry: ModelEntry
    file: LockedFile
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    xet: XetSource | None = None
    local: str | None = None


def new_session() -> requests.Session:
    """A session of its own for one stream; proxies and certificates as the environment names them."""
    import requests

    return requests.Session()


def http_stream(session: requests.Session, source: Source, *, start: int, stall_s: float) -> Iterator[bytes]:
    """The bytes from ``start`` on, as they come.

    Raises StreamBrokenError when the connection breaks, stalls for ``stall_s`` or the server asks to wait;
    KitError (exit 5) when the hub refuses the file or has another one.
    """
    import requests
    import urllib3

    headers = {**source.headers, "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        with session.get(
            source.url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT_S, stall_s)
        ) as got:
            skip = _bytes_to_skip(source, got, start)
            while chunk := got.raw.read1(CHUNK_BYTES, decode_content=False):
                if skip >= len(chunk):
                    skip -= len(chunk)
                    continue
                yield chunk[skip:] if skip else chunk
                skip = 0
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as broken:
        raise StreamBrokenError(_reason(broken, stall_s)) from broken


def _bytes_to_skip(source: Source, got: requests.Response, start: int) -> int:
    first = got.history[0] if got.history else got
    answer = Answer(
        status=got.status_code,
        first={name.lower(): value for name, value in first.headers.items()},
        last={name.lower(): value for name, value in got.headers.items()},
        was_redirected=bool(got.history),
    )
    verdict = judge_answer(answer, source.entry, source.file, start=start)
    if isinstance(verdict, TryLater):
        raise StreamBrokenError(verdict.reason, wait_s=verdict.wait_s)
    if isinstance(verdict, Refuse):
        raise refused(verdict)
    assert isinstance(verdict, Take)
    return verdict.skip_bytes


def refused(verdict: Refuse) -> KitError:
    """The error of a refusal."""
    return KitError(
        verdict.code, verdict.cause, evidence=verdict.evidence, remedy=verdict.remedy, exit_code=Exit.FETCH
    )


def _reason(broken: Exception, stall_s: float) -> str:
    text = _URL.sub("", str(broken))
    if "timed out" in text.lower():
        return f"no byte came for {stall_s:g} s"
    return text or type(broken).__name__


def open_stream(
    session: requests.Session, source: Source, *, start: int, stall_s: float, use_xet: bool
) -> Iterator[bytes]:
    """The bytes of ``source`` from ``start`` on, by the way that it names."""
    if source.local is not None:
        return file_stream(source.local, start=start)
    if use_xet and source.xet is not None:
        return xet_stream(source, start=start, stall_s=stall_s)
    return http_stream(session, source, start=start, stall_s=stall_s)


def file_stream(path: str, *, start: int) -> Iterator[bytes]:
    """The bytes of a file on this machine. Raises StreamBrokenError when it cannot be read."""
    try:
        with Path(path).open("rb", buffering=0) as handle:
            handle.seek(start)
            while chunk := handle.read(CHUNK_BYTES):
                yield chunk
    except OSError as broken:
        raise StreamBrokenError(str(broken)) from broken


def silence_telemetry() -> None:
    """Before huggingface_hub is imported: it would ask the hub for a list of tools and send usage data otherwise."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def xet_is_there() -> bool:
    """Whether the Xet client is installed and not switched off by ``HF_HUB_DISABLE_XET``."""
    silence_telemetry()
    from huggingface_hub.utils._runtime import is_xet_available

    return is_xet_available()


def xet_cache() -> tuple[str, int]:
    """The Xet client's folder, and how many bytes of chunks it may keep there.

    A pull reads every chunk once, so none are kept unless ``HF_XET_CHUNK_CACHE_SIZE_BYTES`` says so (hf_xet 1.8 would
    keep up to 10 GB where it is built so). Must be asked before the client starts: it reads the variable once.
    """
    from huggingface_hub import constants

    stated = os.environ.setdefault(_XET_CACHE_SIZE, "0")
    return constants.HF_XET_CACHE, int(stated) if stated.isdecimal() else 0


def xet_stream(source: Source, *, start: int, stall_s: float) -> Iterator[bytes]:
    """The bytes from ``start`` on, over Xet.

    The client's own retries have no end, so it runs in a thread that is left behind when no byte came for
    ``stall_s``. Raises StreamBrokenError for every failure: the caller goes on over HTTP.
    """
    chunks: queue.Queue[bytes | Exception | None] = queue.Queue(1)
    is_wanted = threading.Event()
    is_wanted.set()
    threading.Thread(target=_pump_xet, args=(source, start, chunks, is_wanted), daemon=True).start()
    try:
        while True:
            chunk = chunks.get(timeout=stall_s)
            if chunk is None:
                return
            if isinstance(chunk, Exception):
                raise StreamBrokenError(f"Xet: {chunk}") from chunk
            yield chunk
    except queue.Empty:
        raise StreamBrokenError(f"Xet: no byte came for {stall_s:g} s") from None
    finally:
        is_wanted.clear()


def _pump_xet(
    source: Source, start: int, chunks: queue.Queue[bytes | Exception | None], is_wanted: threading.Event
) -> None:
    try:
        for chunk in _xet_windows(source, start):
            if not _hand_over(bytes(chunk), chunks, is_wanted):
                return
        _hand_over(None, chunks, is_wanted)
    except Exception as failed:  # the client raises types of its own, one a cause
        _hand_over(failed, chunks, is_wanted)


def _hand_over(
    item: bytes | Exception | None, chunks: queue.Queue[bytes | Exception | None], is_wanted: threading.Event
) -> bool:
    """Give ``item`` to the reader; false when it is gone."""
    while is_wanted.is_set():
        try:
            chunks.put(item, timeout=1.0)
            return True
        except queue.Full:
            continue
    return False


def _xet_windows(source: Source, start: int) -> Iterator[bytes]:
    from hf_xet import XetFileInfo  # type: ignore[import-untyped]  # the wheel has no types
    from huggingface_hub.utils._xet import (
        XetFileData,
        get_xet_session,
        refresh_xet_connection_info,
        xet_headers_without_auth,
    )

    assert source.xet is not None
    headers = dict(source.headers)
    data = XetFileData(file_hash=source.xet.file_hash, refresh_route=source.xet.refresh_url)
    info = refresh_xet_connection_info(file_data=data, headers=headers)
    session: Any = get_xet_session()  # type: ignore[no-untyped-call]  # untyped in huggingface_hub 2.4
    group = session.new_download_stream_group(
        endpoint=info.endpoint,
        token=info.access_token,
        token_expiry_unix_secs=info.expiration_unix_epoch,
        token_refresh_url=data.refresh_route,
        token_refresh_headers=headers,
        custom_headers=xet_headers_without_auth(headers),
    )
    size = source.file.size_bytes
    for begin in range(start, size, XET_WINDOW_BYTES):
        end = min(size, begin + XET_WINDOW_BYTES)
        yield from group.download_stream(XetFileInfo(data.file_hash, size), start=begin, end=end)
