"""Build and push images with docker's own commands; secrets are files that live only while a build runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kitctl.edge.process import run_process
from kitctl.errors import Exit, KitError
from kitctl.plan.build import BuildRequest
from kitctl.plan.build_command import build_argv, plain_build_argv, pushed_digest
from kitctl.plan.build_progress import failure_lines

_KEPT_LINES = 80
_TO_END_S = 30
_PUSH_LIMIT_S = 6 * 3600


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
    draw its own progress on the terminal. An interrupt ends the builder too; steps that ended are in its cache.

    Raises KitError ``build-failed`` (exit 4) with the builder's last lines.
    """
    with _secret_files(secrets) as files:
        argv = build_argv(
            request,
            context_dir=context_dir,
            pins_dir=pins_dir,
            secret_files=files,
            proxies=proxies,
            use_cache=use_cache,
            plain=on_line is not None,
        )
        _build(argv, proxies, on_line, what=request.reference)


def build_plain(context_dir: str, *, reference: str, build_args: Mapping[str, str]) -> None:
    """Build a folder with a Dockerfile that fetches nothing. Raises KitError ``build-failed`` (exit 4)."""
    argv = plain_build_argv(context_dir, reference=reference, build_args=build_args)
    _build(argv, {}, lambda line: None, what=reference)


def push_image(reference: str, target: str) -> str:
    """Give the image the name ``target`` and push it; the digest under which the registry holds it.

    Raises KitError ``push-failed`` (exit 4).
    """
    said = ""
    for argv in (("docker", "tag", reference, target), ("docker", "push", target)):
        done = run_process(argv, timeout_s=_PUSH_LIMIT_S)
        said = done.stdout
        if not done.ok:
            raise _push_failed(target, done.failure or done.stderr or done.stdout)
    digest = pushed_digest(said)
    if digest is None:
        raise _push_failed(target, f"the registry named no digest: {said}")
    return digest


def _push_failed(target: str, said: str) -> KitError:
    return KitError(
        "push-failed",
        f"{target} could not be pushed",
        evidence=tuple(line for line in said.splitlines() if line.strip())[-3:],
        remedy="docker login to the registry, and check that the repository exists and may be written",
        exit_code=Exit.BUILD,
    )


def _build(
    argv: tuple[str, ...],
    proxies: Mapping[str, str],
    on_line: Callable[[str], None] | None,
    *,
    what: str,
) -> None:
    said: list[str] = []
    heard = subprocess.PIPE if on_line is not None else None
    with _running(argv, heard, {**os.environ, **proxies}) as builder:
        for line in builder.stdout or ():
            said.append(line.rstrip())
            del said[:-_KEPT_LINES]
            if on_line is not None:
                on_line(line.rstrip())
        if builder.wait() != 0:
            raise _build_failed(what, said, builder.returncode)


@contextmanager
def _running(
    argv: tuple[str, ...], heard: int | None, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """The builder, which does not outlive the block: told to end, it cancels what the engine builds for it."""
    merged = subprocess.STDOUT if heard is not None else None
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=heard,
        stderr=merged,
        text=True,
        errors="replace",
        env=environment,
    ) as builder:
        try:
            yield builder
        finally:
            if builder.poll() is None:
                builder.terminate()
                try:
                    builder.wait(_TO_END_S)
                except subprocess.TimeoutExpired:
                    builder.kill()


@contextmanager
def _secret_files(secrets: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Each secret as a file that only this user may read, by id."""
    with tempfile.TemporaryDirectory(prefix="kitctl-build-") as folder:
        files = {}
        for name, text in secrets.items():
            path = Path(folder) / name
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            files[name] = str(path)
        yield files


def _build_failed(what: str, said: list[str], exit_code: int) -> KitError:
    return KitError(
        "build-failed",
        f"{what} could not be built",
        evidence=failure_lines(said) or (f"exit code {exit_code}",),
        remedy="read the builder's lines above; when a download failed, run the same command again",
        exit_code=Exit.BUILD,
    )
