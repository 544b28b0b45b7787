"""Run a Python program inside an image: no network, no mounts, nothing left behind."""

from __future__ import annotations

from kitctl.edge.process import Finished, run_process

_LIMIT_S = 1800


def run_inside(
    reference: str, program: str, *arguments: str, limit_s: float = _LIMIT_S, as_root: bool = False
) -> Finished:
    """Run ``program`` (Python source, through stdin, so that remote engines work too) as the image's run user."""
    user = ("--user", "0:0") if as_root else ()
    argv = ("docker", "run", "--interactive", "--rm", "--init", "--network", "none", "--pull", "never",
            *user, "--entrypoint", "python", reference, "-", *arguments)  # fmt: skip
    return run_process(argv, timeout_s=limit_s, stdin=program)


def how_it_ended(done: Finished) -> str | None:
    """Why the program did not end well, in one line; ``None`` when it did."""
    if done.ok:
        return None
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return done.failure or f"exit code {done.exit_code}: {said[-1] if said else 'no output'}"
