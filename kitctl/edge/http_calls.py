"""Short calls to a model server: what it serves, what it counted, what it is; and its cache flushed."""

from __future__ import annotations

from typing import Any

from kitctl.bench.load import Target
from kitctl.kit.json_text import parse_json

SHORT_S = 10.0


def base_url(target: Target) -> str:
    """``http://host:port/prefix`` of a target."""
    return f"{'https' if target.tls else 'http'}://{target.address}{target.path}"


def call(
    target: Target, method: str, path: str, *, body: dict[str, Any] | None = None, timeout_s: float = SHORT_S
) -> tuple[int, str]:
    """One request; status and text. Status 0: no answer came, the text says why.

    A redirect that leads nowhere is an answer: its status, and what is wrong with it.
    """
    import requests

    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    verify: bool | str = False if target.insecure else target.ca_file or True
    try:
        with requests.request(
            method, base_url(target) + path, json=body, headers=headers, timeout=timeout_s, verify=verify
        ) as answer:
            answer.encoding = "utf-8"
            return answer.status_code, answer.text
    except requests.TooManyRedirects as lost:
        return lost.response.status_code if lost.response is not None else 0, str(lost).rstrip(".")
    except (requests.RequestException, ValueError, OSError) as failed:
        return 0, str(failed)


def call_json(
    target: Target, method: str, path: str, *, body: dict[str, Any] | None = None, timeout_s: float = SHORT_S
) -> tuple[int, Any]:
    """One request whose answer is JSON; ``None`` in place of it when it is not."""
    status, text = call(target, method, path, body=body, timeout_s=timeout_s)
    try:
        return status, parse_json(text)
    except ValueError:
        return status, None


def served_models(target: Target) -> tuple[str, ...] | None:
    """The names that ``/v1/models`` lists; ``None`` when the server has no such list."""
    entries = _listed_models(target)
    return None if entries is None else tuple(str(entry["id"]) for entry in entries)


def context_tokens(target: Target, model: str) -> int | None:
    """The tokens that a request to ``model`` and its answer may have together, as ``/v1/models`` tells them."""
    for entry in _listed_models(target) or ():
        length = entry.get("max_model_len")
        if entry["id"] == model and isinstance(length, int) and length > 0:
            return length
    return None


def _listed_models(target: Target) -> list[dict[str, Any]] | None:
    status, answer = call_json(target, "GET", "/v1/models")
    entries = answer.get("data") if status == 200 and isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return None
    return [entry for entry in entries if isinstance(entry, dict) and "id" in entry]


def metrics_text(target: Target) -> str | None:
    """The text of ``/metrics``; ``None`` when the server publishes none."""
    status, text = call(target, "GET", "/metrics")
    return text if status == 200 else None


def server_info(target: Target) -> dict[str, Any] | None:
    """SGLang's ``/server_info``. It holds secrets (api keys): keep only an allow-list of it."""
    status, answer = call_json(target, "GET", "/server_info")
    return answer if status == 200 and isinstance(answer, dict) else None


def flush_cache(target: Target) -> bool:
    """Ask the engine to drop its prefix cache; false when it cannot or will not."""
    status, _ = call(target, "POST", "/flush_cache?timeout=5")
    return status == 200
