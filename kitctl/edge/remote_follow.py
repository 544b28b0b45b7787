"""Run one kitctl command on a remote host and be its terminal here, however often the line drops."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from kitctl.edge.remote_line import Frame, Lacking, Line, LineDroppedError, upload
from kitctl.edge.remote_pack import bring_back, code_files, key_of, library_archive, pack, requirements
from kitctl.edge.stdout import writing_stdout
from kitctl.errors import Exit, KitError
from kitctl.host.remote_address import SshHost, unreachable_host
from kitctl.kit.remote_verbs import LineTimes

_UPLOAD_S = 1800.0
_MIB = 1024 * 1024
_LOOPBACK = re.compile(rb"http://(?:127\.0\.0\.1|\[::1\]|localhost):(\d+)")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be done there. ``job`` names it: the same name, while it runs, is the same job.

    ``options`` maps an option to its typed values and their places in the job's folder, ``places`` those places to
    this machine's paths, ``shown`` to what is written in their stead in what the job says. ``kept``: an end that
    nobody has read is not forgotten. ``abandoned_s`` 0: it goes on when nobody listens.
    """

    job: str
    argv: tuple[str, ...]
    options: Mapping[str, Mapping[str, str]]
    places: Mapping[str, str]
    shown: Mapping[str, str]
    env: Mapping[str, str]
    carried: bytes
    kept: bool
    abandoned_s: float
    extras: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Followed:
    """How the job ended, and the ports on its host's loopback that its stdout named."""

    exit_code: int
    ports: tuple[str, ...]


@dataclass(kw_only=True)
class _Heard:
    """How far the job has been followed."""

    at: dict[str, int] = field(default_factory=lambda: {"o": 0, "e": 0})
    rest: dict[str, bytes] = field(default_factory=lambda: {"o": b"", "e": b""})
    shown: list[tuple[bytes, bytes]] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    has_begun: bool = False
    is_stopping: bool = False


def follow_job(host: SshHost, job: Job, *, times: LineTimes, say: Callable[[str], None]) -> Followed:
    """The end of the job there; what it writes comes out here, once, whatever happens to the line.

    Ctrl-C ends the job as it would here; pressed again, kitctl leaves at once. Raises KitError ``host-unreachable``
    when the first try fails, ``line-lost`` and ``remote-job-lost`` later (all exit 10).
    """
    heard = _Heard()
    try:
        code = _keep_following(host, job, heard, times=times, say=say)
    except KeyboardInterrupt:
        if heard.has_begun:
            say(
                f"left {host.destination}; what was begun there {'is ending' if heard.is_stopping else 'goes on'}"
            )
        raise
    return Followed(exit_code=code, ports=tuple(dict.fromkeys(heard.ports)))


def _keep_following(
    host: SshHost, job: Job, heard: _Heard, *, times: LineTimes, say: Callable[[str], None]
) -> int:
    """The job's exit code, over as many lines as it takes."""
    keys = _keys(job.extras)
    dropped_s: float | None = None
    pause_s = 1.0
    while True:
        try:
            with _open(host, keys, job.extras, times=times, say=say) as line:
                if dropped_s is not None:
                    say(f"line: {host.destination} answers again")
                dropped_s, pause_s = None, 1.0
                return _follow(line, host, job, heard, times=times, say=say)
        except (LineDroppedError, KitError) as lost:
            if not heard.has_begun and isinstance(lost, LineDroppedError):
                raise agent_failed(host, str(lost)) from lost
            if isinstance(lost, KitError) and (not heard.has_begun or lost.code != "host-unreachable"):
                raise
            now_s = time.monotonic()
            if dropped_s is None:
                dropped_s = now_s
                say(f"line: {host.destination} does not answer; the work there goes on, trying again")
            if now_s - dropped_s > times.give_up_s:
                raise line_lost(host, times.give_up_s, str(lost)) from lost
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, times.slowest_try_s)


def _keys(extras: frozenset[str]) -> tuple[str, str]:
    """The keys of kitctl's code and of its libraries on the remote."""
    from hashlib import sha256

    found = requirements(extras)
    return key_of(code_files()), sha256(json.dumps(found).encode()).hexdigest()[:16]


def _open(
    host: SshHost,
    keys: tuple[str, str],
    extras: frozenset[str],
    *,
    times: LineTimes,
    say: Callable[[str], None],
) -> Line:
    """A line with the agent behind it; kitctl is put on the host first where it lacks it."""
    code, libraries = keys
    for _ in range(2):
        line = Line(host, code=code, libraries=libraries, connect_s=times.connect_s)
        try:
            lacking = line.greet()
        except BaseException:
            line.__exit__()
            raise
        if lacking is None:
            return line
        line.__exit__()
        _install(host, lacking, keys, extras, times=times, say=say)
    raise unreachable_host(host, "kitctl was put there and is not found there")


def _install(
    host: SshHost,
    lacking: Lacking,
    keys: tuple[str, str],
    extras: frozenset[str],
    *,
    times: LineTimes,
    say: Callable[[str], None],
) -> None:
    archives = {}
    if "code" in lacking.parts:
        archives[f"code-{keys[0]}"] = pack(code_files())
    if "lib" in lacking.parts:
        archives[f"lib-{keys[1]}-{lacking.tag}"] = library_archive(requirements(extras), lacking.tag)
    total = sum(map(len, archives.values()))
    say(f"remote: putting this kitctl on {host.destination}, {total / _MIB:.1f} MiB, once")
    for folder, archive in archives.items():
        upload(host, archive, folder, connect_s=times.connect_s, limit_s=_UPLOAD_S)


def _follow(
    line: Line, host: SshHost, job: Job, heard: _Heard, *, times: LineTimes, say: Callable[[str], None]
) -> int:
    header = {
        "job": job.job,
        "argv": job.argv,
        "options": job.options,
        "env": dict(job.env),
        "kept": job.kept,
        "again": heard.has_begun,
        "abandoned_s": job.abandoned_s,
        "out": heard.at["o"],
        "err": heard.at["e"],
    }
    line.send_header(header, b"" if heard.has_begun else job.carried)
    if heard.is_stopping:
        line.send(b"stop\n")
    frames = line.frames(silent_s=times.silent_s)
    while True:
        try:
            code = _take(next(frames), line, host, job, heard, say=say)
            if code is not None:
                return code
        except KeyboardInterrupt:
            if heard.is_stopping:
                raise
            heard.is_stopping = True
            say(f"stopping it on {host.destination}; Ctrl-C again leaves at once")
            line.send(b"stop\n")
            frames = line.frames(silent_s=times.silent_s)
        except BrokenPipeError:
            line.send(b"stop\n" if job.abandoned_s else b"")
            raise


def _take(
    frame: Frame, line: Line, host: SshHost, job: Job, heard: _Heard, *, say: Callable[[str], None]
) -> int | None:
    """Do what the frame says; the exit code when it is the last."""
    match frame.kind:
        case "n":
            _read_news(json.loads(frame.body), host, job, heard, say)
        case "o" | "e":
            heard.at[frame.kind] += len(frame.body)
            _show(frame.kind, frame.body, heard)
        case "f":
            bring_back(frame.body, job.places)
        case "x":
            for kind in ("e", "o"):
                _show(kind, b"", heard, is_last=True)
            with suppress(LineDroppedError):
                line.finish()
            code = json.loads(frame.body)["code"]
            if code is None:
                raise job_lost(host)
            return int(code)
    return None


def _read_news(
    news: dict[str, str], host: SshHost, job: Job, heard: _Heard, say: Callable[[str], None]
) -> None:
    if news["state"] == "gone":
        raise job_lost(host)
    if not heard.has_begun and news["state"] == "running":
        say(f"the same command runs on {host.destination} since {news['since']}; following it")
    if not heard.has_begun and news["state"] == "ended":
        say(
            f"the same command began on {host.destination} at {news['since']} and ended unread; this is what it said"
        )
    heard.has_begun = True
    folder = news["folder"]
    heard.shown = [(f"{folder}/{place}".encode(), text.encode()) for place, text in job.shown.items()]


def _show(kind: str, chunk: bytes, heard: _Heard, *, is_last: bool = False) -> None:
    """Write whole lines, with this machine's paths in place of the job's."""
    lines, newline, rest = (heard.rest[kind] + chunk).rpartition(b"\n")
    heard.rest[kind] = b"" if is_last else rest
    text = lines + newline + (rest if is_last else b"")
    for there, here in heard.shown:
        text = text.replace(there, here)
    if kind == "o":
        heard.ports += [port.decode() for port in _LOOPBACK.findall(text)]
    if text:
        out: BinaryIO = (sys.stdout if kind == "o" else sys.stderr).buffer
        with writing_stdout() if kind == "o" else nullcontext():
            out.write(text)
            out.flush()


def agent_failed(host: SshHost, said: str) -> KitError:
    """The error for a host where kitctl came up and could not begin."""
    return KitError(
        "remote-not-begun",
        f"kitctl could not begin on {host.destination}",
        evidence=(said,) if said else ("the line dropped before it said a word",),
        remedy=f"see on {host.destination} that ~/.local/state is writable and its disk has room, then try again",
        exit_code=Exit.UNREACHABLE,
    )


def line_lost(host: SshHost, give_up_s: float, said: str) -> KitError:
    """The error for a line that did not come back."""
    return KitError(
        "line-lost",
        f"{host.destination} has not answered for {give_up_s / 60:.0f} min; what was begun there goes on",
        evidence=(said,) if said else (),
        remedy="run the same command again: it follows what runs there",
        exit_code=Exit.UNREACHABLE,
    )


def job_lost(host: SshHost) -> KitError:
    """The error for work on the remote host that was killed there."""
    return KitError(
        "remote-job-lost",
        f"the kitctl on {host.destination} is gone without an exit code",
        evidence=("it was killed, or the host was started anew",),
        remedy="run the same command again; kitctl ends what it left half done",
        exit_code=Exit.UNREACHABLE,
    )
