"""Build images with buildx, through python-on-whales; secrets are files that live only while a build runs."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.plan.build import BuildRequest

_KEPT_LINES = 40


def run_build(
    request: BuildRequest,
    *,
    context_dir: str,
    pins_dir: str,
    secrets: Mapping[str, str],
    proxies: Mapping[str, str],
    use_cache: bool,
    on_line: Callable[[str], None] | None,
) -> None:
    """Build ``request`` and tag it on the engine. ``on_line`` gets the builder's lines; ``None`` lets the builder
    draw its own progress on the terminal.

    Raises KitError ``build-failed`` (exit 4) with the builder's last lines.
    """
    options: dict[str, Any] = {
        "build_args": {**request.build_args, **proxies},
        "build_contexts": {"pins": pins_dir},
        "labels": dict(request.labels),
        "target": request.stage,
        "platforms": [request.platform],
        "cache": use_cache,
        "output": {
            "type": "image",
            "name": request.reference,
            "compression": "zstd",
            "compression-level": "1",
        },
    }
    _build(context_dir, options, secrets=secrets, on_line=on_line, what=request.reference)


def build_plain(context_dir: str, *, reference: str, build_args: Mapping[str, str]) -> None:
    """Build a folder with a Dockerfile that fetches nothing. Raises KitError ``build-failed`` (exit 4)."""
    options = {
        "build_args": dict(build_args),
        "output": {"type": "image", "name": reference},
    }
    _build(context_dir, options, secrets={}, on_line=lambda line: None, what=reference)


def push_image(reference: str, target: str) -> None:
    """Give the image the name ``target`` and push it. Raises KitError ``push-failed`` (exit 4)."""
    from python_on_whales import DockerClient
    from python_on_whales.exceptions import DockerException

    client = DockerClient()
    try:
        client.tag(reference, target)
        client.push(target, quiet=True)
    except DockerException as refused:
        raise KitError(
            "push-failed",
            f"{target} could not be pushed",
            evidence=tuple((refused.stderr or str(refused)).splitlines()[-3:]),
            remedy="docker login to the registry, and check that the repository exists and may be written",
            exit_code=Exit.BUILD,
        ) from refused


def _build(
    context_dir: str,
    options: dict[str, Any],
    *,
    secrets: Mapping[str, str],
    on_line: Callable[[str], None] | None,
    what: str,
) -> None:
    from python_on_whales import DockerClient
    from python_on_whales.exceptions import DockerException

    said: list[str] = []
    with ExitStack() as stack:
        options["secrets"] = _secret_files(secrets, stack)
        try:
            if on_line is None:
                DockerClient().buildx.build(context_dir, **options, network="host", provenance=False)
                return
            lines: Any = DockerClient().buildx.build(
                context_dir, **options, network="host", provenance=False, progress="plain", stream_logs=True
            )
            for line in lines:
                said.append(line.rstrip())
                del said[:-_KEPT_LINES]
                on_line(line.rstrip())
        except (DockerException, subprocess.SubprocessError) as failed:
            raise _build_failed(what, said, failed) from failed


def _secret_files(secrets: Mapping[str, str], stack: ExitStack) -> list[str]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kitctl-build-")))
    arguments = []
    for name, text in secrets.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        arguments.append(f"id={name},src={path}")
    return arguments


def _build_failed(what: str, said: list[str], failed: Exception) -> KitError:
    lines = [line for line in said if line.strip()] or str(failed).splitlines()
    return KitError(
        "build-failed",
        f"{what} could not be built",
        evidence=tuple(lines[-8:]),
        remedy="read the builder's lines above; when a download failed, run the same command again",
        exit_code=Exit.BUILD,
    )
