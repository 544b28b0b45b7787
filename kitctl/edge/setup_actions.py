"""Carry out the steps of ``kitctl setup``. Each can be cut short and repeated: beside first, then renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from kitctl.edge.files import write_atomic
from kitctl.edge.gauge import telling
from kitctl.edge.process import run_process
from kitctl.edge.setup_survey import ask_engine, running_daemon
from kitctl.errors import Exit, KitError
from kitctl.host.setup_apt import download_argv
from kitctl.host.setup_report import Outcome, action_lines, requirements_text, wheel_argv
from kitctl.host.setup_steps import (
    Action,
    AwaitEngine,
    Link,
    Run,
    StartDaemon,
    Step,
    UnpackDeb,
    UnpackWheel,
    WriteText,
)

_FETCH_TIMEOUT_S = 900.0
_POLL_S = 0.2
_AGAIN = "mend what the lines above name, then run kitctl setup again: it goes on where it stopped"


@contextmanager
def setup_lock(path: str) -> Iterator[None]:
    """Only one setup works on a host. Raises KitError ``setup-busy`` (exit 3) when another does."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode().strip()
            raise KitError(
                "setup-busy",
                "another kitctl setup works on this host",
                evidence=(f"process {holder}",),
                remedy="let it end, then run: kitctl setup",
                exit_code=Exit.REFUSED,
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def carry_out(
    steps: tuple[Step, ...], say: Callable[[str], None], *, tell_every_s: float = 30.0
) -> tuple[Outcome, ...]:
    """Do the steps in order and say what each did and its time, and every ``tell_every_s`` seconds what one is at.

    Raises KitError ``setup-step-failed``, ``in-the-way`` or ``engine-did-not-start`` (exit 10) at the first
    that fails; what was done until then stands and is not done again.
    """
    outcomes = []
    for number, step in enumerate(steps, start=1):
        head = f"[{number}/{len(steps)}] {step.name}"
        say(f"{head} ...")
        began = time.monotonic()
        for action in step.actions:
            with telling(_still(head, action, began), say, every_s=tell_every_s):
                _do(step, action)
        seconds = time.monotonic() - began
        outcomes.append(Outcome(name=step.name, seconds=seconds))
        say(f"{head}: done in {seconds:.1f} s")
    return tuple(outcomes)


def _still(head: str, action: Action, began: float) -> Callable[[], str]:
    """What is said of a step that takes long: for how many seconds, and which of its commands runs."""
    return lambda: f"{head}: {time.monotonic() - began:.0f} s, still at: {action_lines(action)[0]}"


def _do(step: Step, action: Action) -> None:
    match action:
        case Run():
            _run(step, action.argv, timeout_s=action.timeout_s)
        case UnpackDeb():
            _unpack_deb(step, action)
        case UnpackWheel():
            _unpack_wheel(step, action)
        case WriteText():
            write_atomic(action.path, action.text)
        case Link():
            _link(action)
        case StartDaemon():
            _start_daemon(action)
        case AwaitEngine():
            _await_engine(action.timeout_s, lambda: None, evidence=lambda: ask_engine().said)
        case _:
            assert_never(action)


def _run(step: Step, argv: tuple[str, ...], *, timeout_s: float, cwd: str | None = None) -> None:
    done = run_process(argv, timeout_s=timeout_s, env={"DEBIAN_FRONTEND": "noninteractive"}, cwd=cwd)
    if done.ok:
        return
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-8:]
    raise KitError(
        "setup-step-failed",
        f"the step '{step.name}' failed: {argv[0]} {done.failure or f'ended with {done.exit_code}'}",
        evidence=(" ".join(argv), *said),
        remedy=_AGAIN,
        exit_code=Exit.UNREACHABLE,
    )


@contextmanager
def _beside(target: str) -> Iterator[Path]:
    """An empty folder that takes the name ``target`` when the block ends well, and goes when it does not."""
    partial = Path(f"{target}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack_deb(step: Step, action: UnpackDeb) -> None:
    with tempfile.TemporaryDirectory(dir=action.folder) as fetched, _beside(action.target) as unpacked:
        argv = download_argv(action.folder, action.package, action.version)
        _run(step, argv, timeout_s=_FETCH_TIMEOUT_S, cwd=fetched)
        archive = next(Path(fetched).glob("*.deb"))
        _run(step, ("dpkg-deb", "-x", str(archive), str(unpacked)), timeout_s=_FETCH_TIMEOUT_S)
        unpacked.chmod(0o755)


def _unpack_wheel(step: Step, action: UnpackWheel) -> None:
    with tempfile.TemporaryDirectory() as folder, _beside(action.target) as unpacked:
        requirements = f"{folder}/requirements.txt"
        write_atomic(requirements, requirements_text(action))
        _run(step, wheel_argv(action, requirements, str(unpacked)), timeout_s=_FETCH_TIMEOUT_S)
        unpacked.chmod(0o755)


def _link(action: Link) -> None:
    path = Path(action.path)
    if path.exists() and not path.is_symlink():
        raise KitError(
            "in-the-way",
            f"{path} is a file that setup did not make, and setup replaces none",
            remedy=f"mv {path} {path}.old, then run: kitctl setup",
            exit_code=Exit.UNREACHABLE,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.kitctl")
    beside.unlink(missing_ok=True)
    beside.symlink_to(action.target)
    beside.replace(path)


def _start_daemon(action: StartDaemon) -> None:
    """Start dockerd in a session of its own, so that it outlives kitctl and its terminal; not beside another."""
    if ask_engine().server is not None:
        return
    for pidfile, owner in ((action.pidfile, "dockerd"), (action.containerd_pidfile, "containerd")):
        if running_daemon(pidfile, program=owner) is None:
            Path(pidfile).unlink(missing_ok=True)
    kept = {name: os.environ[name] for name in action.keep_environment if name in os.environ}
    program = shutil.which(action.argv[0], path=action.path) or action.argv[0]
    Path(action.log).parent.mkdir(parents=True, exist_ok=True)
    start_of_log = Path(action.log).stat().st_size if Path(action.log).exists() else 0
    try:
        daemon = _spawn((program, *action.argv[1:]), env={**kept, "PATH": action.path}, log=action.log)
    except OSError as refused:
        raise _not_started(f"could not be started: {refused}", ()) from refused

    def tail() -> str:
        return Path(action.log).read_bytes()[start_of_log:].decode("utf-8", "replace")

    _await_engine(action.timeout_s, daemon.poll, evidence=tail)


def _await_engine(timeout_s: float, ended: Callable[[], int | None], *, evidence: Callable[[], str]) -> None:
    deadline = time.monotonic() + timeout_s
    while ask_engine().server is None:
        code = ended()
        late = time.monotonic() > deadline
        if code is not None or late:
            how = f"does not answer after {timeout_s:g} s" if late else f"ended with {code}"
            raise _not_started(f"was started and {how}", tuple(evidence().strip().splitlines()[-8:]))
        time.sleep(_POLL_S)


def _spawn(argv: tuple[str, ...], *, env: dict[str, str], log: str) -> subprocess.Popen[bytes]:
    with Path(log).open("ab") as out:
        return subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", start_new_session=True
        )


def _not_started(how: str, said: tuple[str, ...]) -> KitError:
    return KitError(
        "engine-did-not-start",
        f"the engine {how}",
        evidence=said,
        remedy=_AGAIN,
        exit_code=Exit.UNREACHABLE,
    )
