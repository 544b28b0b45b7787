"""What a container said: all of it, or what it said since its latest start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from kitctl.edge.docker_client import engine_calls
from kitctl.edge.docker_engine import epoch_s
from kitctl.errors import KitError


def log_lines(
    container_id: str, *, follow: bool, tail: int | None = None, life: str | None = None
) -> Iterator[str]:
    """The container's output line by line (stdout and stderr as written); ends when it does.

    ``life`` is the ``started_at`` of its latest start: what came before is left out. A progress bar's carriage
    returns stay inside their line.
    """
    if life is None:
        return _raw_lines(container_id, follow=follow, tail=tail)
    stamped = _raw_lines(container_id, follow=follow, tail=tail, timestamps=True)
    return (text for text, _ in _of_life(stamped, epoch_s(life)))


def followed_lines(container_id: str, *, life: str | None) -> Iterator[tuple[str, float | None]]:
    """Lines as ``log_lines`` follows them, each with the engine's stamp in seconds since the epoch, as far as it has
    one."""
    return _of_life(_raw_lines(container_id, follow=True, tail=None, timestamps=True), epoch_s(life))


def follow_beside(container_id: str, see: Callable[[str], None]) -> threading.Thread:
    """Call ``see`` with each line from now on, in a thread that ends with the container."""

    def follow() -> None:
        with suppress(KitError):
            for line in log_lines(container_id, follow=True, tail=0):
                see(line)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    return thread


def _of_life(stamped: Iterator[str], since_s: float | None) -> Iterator[tuple[str, float | None]]:
    """Lines from the first that is not older than ``since_s``, and their stamps.

    All that follows it belongs to the same life, whatever its stamp: the host's clock may be set back meanwhile, and
    an engine that filters by ``since`` could hide what comes then.
    """
    has_begun = False
    for line in stamped:
        stamp, _, text = line.partition(" ")
        stamp_s = epoch_s(stamp)
        has_begun = has_begun or since_s is None or (stamp_s or 0.0) >= since_s
        if has_begun:
            yield text, stamp_s


def _raw_lines(
    container_id: str, *, follow: bool, tail: int | None, timestamps: bool = False
) -> Iterator[str]:
    import docker.errors

    try:
        with engine_calls() as client:
            chunks = client.api.logs(
                container_id,
                stream=True,
                follow=follow,
                tail="all" if tail is None else tail,
                timestamps=timestamps,
            )
            rest = b""
            for chunk in chunks:
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in whole)
            if rest:
                yield rest.decode("utf-8", "replace")
    except docker.errors.NotFound:
        return
