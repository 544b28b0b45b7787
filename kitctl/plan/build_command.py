"""Which command builds an image? A build request as ``docker buildx``'s arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kitctl.plan.build import BuildRequest

_DIGEST = re.compile(r"\bdigest: (sha256:[0-9a-f]{64})\b")


def build_argv(
    request: BuildRequest,
    *,
    context_dir: str,
    pins_dir: str,
    secret_files: Mapping[str, str],
    proxies: Iterable[str],
    use_cache: bool,
    plain: bool,
) -> tuple[str, ...]:
    """The whole command. ``secret_files``: id to path; ``proxies``: names of variables whose values the builder takes
    from the environment, so that no process list shows them; ``plain``: one line per event instead of a drawing.
    """
    options = [
        ("--target", request.stage),
        ("--platform", request.platform),
        *(("--build-arg", f"{name}={value}") for name, value in request.build_args.items()),
        *(("--build-arg", name) for name in proxies),
        ("--build-context", f"pins={pins_dir}"),
        *(("--label", f"{name}={value}") for name, value in request.labels.items()),
        *(("--secret", f"id={name},src={path}") for name, path in secret_files.items()),
        ("--output", f"type=image,name={request.reference},compression=zstd,compression-level=1"),
    ]
    return _argv(options, context_dir, use_cache=use_cache, plain=plain)


def plain_build_argv(
    context_dir: str, *, reference: str, build_args: Mapping[str, str], plain: bool = True
) -> tuple[str, ...]:
    """The command for a folder whose Dockerfile needs neither stage nor secret."""
    options = [
        *(("--build-arg", f"{name}={value}") for name, value in build_args.items()),
        ("--output", f"type=image,name={reference}"),
    ]
    return _argv(options, context_dir, use_cache=True, plain=plain)


def _argv(
    options: Iterable[tuple[str, str]], context_dir: str, *, use_cache: bool, plain: bool
) -> tuple[str, ...]:
    return (
        "docker", "buildx", "build", "--network", "host", "--provenance=false",
        *(word for option in options for word in option),
        *(() if use_cache else ("--no-cache",)),
        *(("--progress", "plain") if plain else ()),
        context_dir,
    )  # fmt: skip


def pushed_digest(output: str) -> str | None:
    """The digest under which the registry holds the image, in what ``docker push`` printed."""
    found = _DIGEST.findall(output)
    return found[-1] if found else None
