"""Ask a hub: which commit, which files, may I read them? huggingface_hub speaks; its errors become KitErrors.

Honours ``HF_ENDPOINT``, ``HF_TOKEN`` (and the token that ``hf auth login`` keeps), ``HF_HUB_OFFLINE`` and the
proxies of the environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kitctl.edge.store_files import hash_of
from kitctl.edge.streams import (
    Source,
    StreamBrokenError,
    XetSource,
    http_stream,
    new_session,
    refused,
    silence_telemetry,
)
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, ModelEntry
from kitctl.store.answer import refuse_gated, refuse_token, wait_named
from kitctl.store.hub_model import HubFile, HubModel

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

T = TypeVar("T")
MAX_SMALL_FILE_BYTES = 32 * 1024**2
_TRIES = 4
_LONGEST_WAIT_S = 60.0
_TIMEOUT_S = 20.0
_TRY_LATER = {408, 425, 429, 500, 502, 503, 504}


def read_hub_model(repo: str, revision: str | None, *, say: Callable[[str], None]) -> HubModel:
    """Commit, licence, gate and files of ``repo`` at ``revision`` (default: its main branch).

    Raises KitError ``hub-*`` (exit 5).
    """
    api = _api()
    info = _asked(repo, revision, ask=lambda: api.model_info(repo, revision=revision), say=say)
    commit = str(info.sha)
    return HubModel(
        repo=repo,
        commit=commit,
        licence=_licence(info),
        gated=None if info.gated is None else bool(info.gated),
        files=list_files_at(repo, commit, say=say),
    )


def list_files_at(repo: str, commit: str, *, say: Callable[[str], None]) -> tuple[HubFile, ...]:
    """The files of ``repo`` at ``commit``, by path. Raises KitError ``hub-*`` (exit 5)."""
    files: list[HubFile] = []
    url: str | None = f"{_endpoint()}/api/models/{repo}/tree/{commit}?recursive=true&expand=false"
    while url is not None:
        rows, url = _asked(repo, commit, ask=partial(_tree_page, url), say=say)
        files += [_hub_file(row) for row in rows if row.get("type") == "file"]
    return tuple(sorted(files, key=lambda file: file.path))


def _tree_page(url: str) -> tuple[list[dict[str, Any]], str | None]:
    """One page of a listing and the next one's address. Asked plainly: HfApi's own call waits for minutes."""
    from huggingface_hub.utils._headers import build_hf_headers
    from huggingface_hub.utils._http import get_session, hf_raise_for_status

    answer = get_session().get(url, headers=build_hf_headers(library_name="kitctl"), timeout=_TIMEOUT_S)
    hf_raise_for_status(answer)
    rows: list[dict[str, Any]] = answer.json()
    return rows, answer.links.get("next", {}).get("url")


def _endpoint() -> str:
    _api()
    from huggingface_hub import constants

    return constants.ENDPOINT


def _api() -> HfApi:
    """The hub's client."""
    silence_telemetry()
    from huggingface_hub import HfApi

    return HfApi(library_name="kitctl")


def _hub_file(row: dict[str, Any]) -> HubFile:
    large = row.get("lfs") or {}
    return HubFile(
        path=row["path"],
        size_bytes=large.get("size", row["size"]),
        git_sha1=row["oid"],
        sha256=large.get("oid") or large.get("sha256"),
        xet_hash=row.get("xetHash"),
    )


def _licence(info: Any) -> str | None:
    stated = getattr(info.card_data, "license", None) if info.card_data else None
    if isinstance(stated, str):
        return stated
    tags = [tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")]
    return tags[0] if tags else None


def check_access(entry: ModelEntry, file: LockedFile, *, say: Callable[[str], None]) -> None:
    """One small request: does the hub let this user read ``file``? Raises KitError ``hub-*`` (exit 5)."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(entry.repo, file.path, revision=entry.commit)
    _asked(entry.repo, entry.commit, ask=lambda: get_hf_file_metadata(url, library_name="kitctl"), say=say)


def source_of(entry: ModelEntry, file: LockedFile, *, xet_hash: str | None) -> Source:
    """Where the bytes of ``file`` come from; over Xet when ``xet_hash`` is given."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils._headers import build_hf_headers
    from huggingface_hub.utils._xet import XetTokenType, xet_connection_info_refresh_url

    xet = None
    if xet_hash is not None:
        refresh = xet_connection_info_refresh_url(
            token_type=XetTokenType.READ, repo_id=entry.repo, repo_type="model", revision=entry.commit
        )
        xet = XetSource(file_hash=xet_hash, refresh_url=refresh)
    return Source(
        entry=entry,
        file=file,
        url=hf_hub_url(entry.repo, file.path, revision=entry.commit),
        headers=build_hf_headers(library_name="kitctl"),
        xet=xet,
    )


def read_small_file(entry: ModelEntry, file: LockedFile, *, timeout_s: float = 30.0) -> bytes:
    """The bytes of a small file of the hub. Raises KitError (exit 5) when it cannot be read or is too large."""
    if file.size_bytes > MAX_SMALL_FILE_BYTES:
        raise _error(
            "hub-refused", f"{file.path} of {entry.repo} is too large for a look", "", "pull the model"
        )
    source = source_of(entry, file, xet_hash=None)
    for failures in range(1, _TRIES + 1):
        try:
            with new_session() as session:
                content = b"".join(http_stream(session, source, start=0, stall_s=timeout_s))
            _check_content(entry, file, content)
            return content
        except StreamBrokenError as broken:
            if failures == _TRIES:
                raise _unreachable(entry.repo, str(broken)) from broken
            time.sleep(min(_LONGEST_WAIT_S, broken.wait_s or 2.0 ** (failures - 1)))
    raise AssertionError("the last try returns or raises")


def _check_content(entry: ModelEntry, file: LockedFile, content: bytes) -> None:
    if len(content) < file.size_bytes:
        raise StreamBrokenError("the connection was cut")
    if hash_of(file, content) != file.blob_name:
        cause = f"the hub sent other bytes for {file.path} of {entry.repo} than it lists"
        raise _error(
            "hash-mismatch", cause, f"listed: {file.blob_name}", "run it again; check proxy and HF_ENDPOINT"
        )


def _asked(repo: str, revision: str | None, *, ask: Callable[[], T], say: Callable[[str], None]) -> T:
    """What ``ask`` returns; asked again while the hub says "later" or cannot be reached."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    for failures in range(1, _TRIES + 1):
        try:
            return ask()
        except OfflineModeIsEnabled as offline:
            raise _offline(repo) from offline
        except HfHubHTTPError as answer:
            wait_s = _wait_of(answer, failures)
            if wait_s is None:
                raise _refusal(repo, revision, answer) from answer
            reason = f"answered {_status(answer)}"
        except _network_errors() as broken:
            if failures == _TRIES:
                raise _unreachable(repo, str(broken) or type(broken).__name__) from broken
            wait_s, reason = 2.0 ** (failures - 1), "cannot be reached"
        say(f"the hub {reason}, asking again in {wait_s:g} s")
        time.sleep(wait_s)
    raise AssertionError("the last try returns or raises")


def _network_errors() -> tuple[type[Exception], ...]:
    import httpx2

    return (httpx2.TransportError, ConnectionError, TimeoutError)


def _status(answer: HfHubHTTPError) -> int:
    return answer.response.status_code if answer.response is not None else 0


def _wait_of(answer: HfHubHTTPError, failures: int) -> float | None:
    """Seconds until the next try, ``None`` when another try will not help."""
    if _status(answer) not in _TRY_LATER or failures == _TRIES:
        return None
    named = wait_named({name.lower(): value for name, value in answer.response.headers.items()})
    return min(_LONGEST_WAIT_S, named if named is not None else 2.0 ** (failures - 1))


def _refusal(repo: str, revision: str | None, answer: HfHubHTTPError) -> KitError:
    from huggingface_hub.errors import (
        GatedRepoError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status, said = _status(answer), str(answer).strip().splitlines()
    evidence = (f"HTTP {status}: {said[-1] if said else ''}",)
    if isinstance(answer, GatedRepoError) or status == 403:
        return refused(refuse_gated(repo, evidence))
    if isinstance(answer, RevisionNotFoundError):
        cause = f"{repo} has no revision {revision!r}"
        return _error(
            "hub-no-revision", cause, evidence[0], f"kitctl models lock {repo}@main, or name one it has"
        )
    if isinstance(answer, RepositoryNotFoundError):
        cause = f"the hub has no model {repo}, or it is private and this account may not read it"
        return _error("hub-no-model", cause, evidence[0], "check the name; for a private model set HF_TOKEN")
    if status == 401:
        return refused(refuse_token(repo, evidence))
    if isinstance(answer, RemoteEntryNotFoundError):
        cause = f"the hub lacks a file of {repo} that models.lock names"
        return _error("file-gone", cause, evidence[0], f"kitctl models lock {repo}")
    if status in _TRY_LATER:
        return _error(
            "hub-busy", f"the hub answers {status} for {repo}", evidence[0], "try again in some minutes"
        )
    return _error("hub-refused", f"the hub answers {status} for {repo}", evidence[0], "look at HF_ENDPOINT")


def _unreachable(repo: str, reason: str) -> KitError:
    from huggingface_hub import constants

    cause = f"the hub cannot be reached for {repo}"
    evidence = f"{constants.ENDPOINT}: {reason}"
    return _error("hub-unreachable", cause, evidence, "see network, proxy and HF_ENDPOINT, then run it again")


def _offline(repo: str) -> KitError:
    remedy = "unset HF_HUB_OFFLINE, or bring the files by 'kitctl bundle import' or 'kitctl models add PATH'"
    return _error("hub-offline", f"files of {repo} are missing and HF_HUB_OFFLINE is set", "", remedy)


def _error(code: str, cause: str, evidence: str, remedy: str) -> KitError:
    shown = (evidence,) if evidence else ()
    return KitError(code, cause, evidence=shown, remedy=remedy, exit_code=Exit.FETCH)
