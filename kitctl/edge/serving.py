"""Talk to the server of a stack: is it up, and does it really answer?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One real completion. ``failure`` says why there is none; ``verify_passes`` are a drafter's, where counted."""

    text: str = ""
    model: str | None = None
    completion_tokens: int = 0
    failure: str | None = None
    verify_passes: int | None = None


def is_healthy(url: str, *, api_key: str | None = None, timeout_s: float = 25.0) -> bool:
    """Whether ``/health_generate`` answers 200: SGLang then generated one token just now."""
    import requests

    try:
        reply = requests.get(f"{url}/health_generate", headers=_headers(api_key), timeout=timeout_s)
    except requests.RequestException:
        return False
    return reply.status_code == 200


def served_models(url: str, *, api_key: str | None = None, timeout_s: float = 10.0) -> tuple[str, ...] | None:
    """Model ids that ``/v1/models`` names, or ``None`` when it does not answer as such."""
    import requests

    try:
        body = requests.get(f"{url}/v1/models", headers=_headers(api_key), timeout=timeout_s).json()
        return tuple(str(model["id"]) for model in body["data"])
    except (requests.RequestException, ValueError, KeyError, TypeError):
        return None


def ask(
    url: str,
    *,
    model: str,
    prompt: str,
    max_tokens: int,
    api_key: str | None = None,
    timeout_s: float = 120.0,
) -> Answer:
    """One chat completion at temperature 0, with the engine's account of it; never raises for what the server does."""
    import requests

    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "return_meta_info": True,
    }
    try:
        reply = requests.post(
            f"{url}/v1/chat/completions", json=body, headers=_headers(api_key), timeout=timeout_s
        )
        if reply.status_code != 200:
            return Answer(failure=f"HTTP {reply.status_code}: {reply.text[:300]}")
        said = reply.json()
        choice = said["choices"][0]
        message, meta = choice["message"], choice.get("meta_info") or {}
        text = "".join(filter(None, (message.get("reasoning_content"), message.get("content"))))
        return Answer(
            text=text,
            model=said.get("model"),
            completion_tokens=int(said["usage"]["completion_tokens"]),
            verify_passes=meta.get("spec_verify_ct"),
        )
    except (requests.RequestException, ValueError, KeyError, TypeError, IndexError) as broken:
        return Answer(failure=f"{type(broken).__name__}: {broken}")


def generate(
    url: str, *, prompt: str, max_tokens: int, api_key: str | None = None, timeout_s: float = 120.0
) -> Answer:
    """One plain completion at temperature 0 over SGLang's own ``/generate``, which counts verify passes."""
    import requests

    body = {"text": prompt, "sampling_params": {"max_new_tokens": max_tokens, "temperature": 0}}
    try:
        reply = requests.post(f"{url}/generate", json=body, headers=_headers(api_key), timeout=timeout_s)
        if reply.status_code != 200:
            return Answer(failure=f"HTTP {reply.status_code}: {reply.text[:300]}")
        said = reply.json()
        meta = said["meta_info"]
        return Answer(
            text=str(said["text"]),
            completion_tokens=int(meta["completion_tokens"]),
            verify_passes=meta.get("spec_verify_ct"),
        )
    except (requests.RequestException, ValueError, KeyError, TypeError) as broken:
        return Answer(failure=f"{type(broken).__name__}: {broken}")


def _headers(api_key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}
