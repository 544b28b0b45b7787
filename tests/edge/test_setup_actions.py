"""Setup's actions on real files and processes: they leave no half state, and fail with what was said."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitctl.edge.setup_actions import carry_out, setup_lock
from kitctl.edge.setup_survey import running_daemon
from kitctl.errors import Exit, KitError
from kitctl.host.setup_steps import Action, Link, Run, StartDaemon, Step, UnpackDeb, UnpackWheel, WriteText

PIP = (sys.executable, "-m", "pip")


def step_of(*actions: Action) -> tuple[Step, ...]:
    return (Step(name="try it", reason="", source="", actions=actions),)


def failure_of(*actions: Action) -> KitError:
    with pytest.raises(KitError) as caught:
        carry_out(step_of(*actions), lambda line: None)
    return caught.value


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """docker points at a socket where nothing listens."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    yield


def test_steps_are_told_with_their_time(tmp_path: Path) -> None:
    said: list[str] = []
    (outcome,) = carry_out(step_of(WriteText(path=f"{tmp_path}/a/b", text="x\n")), said.append)
    assert (tmp_path / "a/b").read_text() == "x\n"
    assert said == ["[1/1] try it ...", f"[1/1] try it: done in {outcome.seconds:.1f} s"]


def test_a_step_that_takes_long_says_for_how_long_and_with_what() -> None:
    """A mirror that trickles must not look like a kitctl that hangs."""
    said: list[str] = []
    argv = (sys.executable, "-c", "import time; time.sleep(0.7)")
    carry_out(step_of(Run(argv=argv, timeout_s=20)), said.append, tell_every_s=0.2)
    assert said[1].startswith("[1/1] try it: 0 s, still at: ") and said[1].endswith("time.sleep(0.7)'")
    assert said[-1].startswith("[1/1] try it: done in ")


def test_a_link_replaces_a_link_and_can_be_made_twice(tmp_path: Path) -> None:
    path = tmp_path / "plugins/docker-buildx"
    for target in ("/old", "/new", "/new"):
        carry_out(step_of(Link(path=str(path), target=target)), lambda line: None)
    assert (str(path.readlink()), [p.name for p in path.parent.iterdir()]) == ("/new", ["docker-buildx"])


def test_a_link_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "docker-compose"
    path.write_text("mine")
    failed = failure_of(Link(path=str(path), target="/new"))
    assert (failed.code, failed.exit_code, path.read_text()) == ("in-the-way", Exit.UNREACHABLE, "mine")
    assert failed.remedy == f"mv {path} {path}.old, then run: kitctl setup"


def test_a_program_that_fails_is_quoted() -> None:
    script = "import sys; print('E: no space left', file=sys.stderr); sys.exit(7)"
    failed = failure_of(Run(argv=(sys.executable, "-c", script), timeout_s=20))
    assert failed.cause == f"the step 'try it' failed: {sys.executable} ended with 7"
    assert failed.evidence[-1] == "E: no space left"
    assert (failed.code, failed.exit_code) == ("setup-step-failed", Exit.UNREACHABLE)


def test_a_wheel_with_another_hash_leaves_nothing(tmp_path: Path) -> None:
    """pip judges the hash of a wheel that lies beside; a wrong one ends the step before anything is unpacked."""
    wheel = tmp_path / "index/tiny_kit-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    make_wheel(wheel)
    pip = ("env", f"PIP_FIND_LINKS={wheel.parent}", "PIP_NO_INDEX=1", *PIP)
    target = tmp_path / "compose/1.0"
    action = UnpackWheel(pip=pip, requirement="tiny-kit==1.0", sha256="0" * 64, target=str(target))
    failed = failure_of(action)
    assert any("DO NOT MATCH THE HASHES" in line for line in failed.evidence), failed.evidence
    assert list((tmp_path / "compose").iterdir()) == []


def test_a_wheel_with_its_hash_is_unpacked_and_can_be_again(tmp_path: Path) -> None:
    wheel = tmp_path / "index/tiny_kit-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    digest = make_wheel(wheel)
    pip = ("env", f"PIP_FIND_LINKS={wheel.parent}", "PIP_NO_INDEX=1", *PIP)
    target = tmp_path / "compose/1.0"
    action = UnpackWheel(pip=pip, requirement="tiny-kit==1.0", sha256=digest, target=str(target))
    carry_out(step_of(action, action), lambda line: None)
    assert (target / "bin/tiny").read_text() == "#!/bin/sh\n"
    assert [path.name for path in target.parent.iterdir()] == ["1.0"]


def test_a_package_that_cannot_be_fetched_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "apt"
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "apt.conf").write_text(
        f'Dir::Etc::SourceList "/dev/null";\nDir::State::Lists "{folder}/lists";\n'
    )
    target = tmp_path / "packages/none_1"
    action = UnpackDeb(folder=str(folder), package="kitctl-no-such", version="1", target=str(target))
    failed = failure_of(action)
    assert (failed.code, "kitctl-no-such" in failed.evidence[-1]) == ("setup-step-failed", True)
    assert list((tmp_path / "packages").iterdir()) == []


@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_ends_is_reported_at_once_with_its_log(tmp_path: Path) -> None:
    action = StartDaemon(
        argv=("sh", "-c", "echo failed to start daemon: no such device; exit 1"),
        path="/usr/bin:/bin",
        log=f"{tmp_path}/log/engine.log",
        pidfile=f"{tmp_path}/engine.pid",
        containerd_pidfile=f"{tmp_path}/containerd.pid",
        keep_environment=(),
        timeout_s=20,
    )
    failed = failure_of(action)
    assert failed.cause == "the engine was started and ended with 1"
    assert failed.evidence == ("failed to start daemon: no such device",)
    assert (failed.code, failed.exit_code) == ("engine-did-not-start", Exit.UNREACHABLE)


@pytest.mark.usefixtures("no_engine")
def test_an_engine_program_that_is_not_there_is_no_bug(tmp_path: Path) -> None:
    action = StartDaemon(
        argv=("/nowhere/dockerd",),
        path="/usr/bin:/bin",
        log=f"{tmp_path}/engine.log",
        pidfile=f"{tmp_path}/engine.pid",
        containerd_pidfile=f"{tmp_path}/containerd.pid",
        keep_environment=(),
        timeout_s=20,
    )
    assert failure_of(action).cause.startswith("the engine could not be started: [Errno 2]")


def test_the_second_setup_learns_who_works(tmp_path: Path) -> None:
    lock = f"{tmp_path}/setup.lock"
    with setup_lock(lock), pytest.raises(KitError) as caught, setup_lock(lock):
        pass
    assert (caught.value.code, caught.value.evidence) == ("setup-busy", (f"process {os.getpid()}",))
    with setup_lock(lock):
        assert Path(lock).read_text() == str(os.getpid())


def test_a_pidfile_counts_only_while_a_dockerd_has_the_number(tmp_path: Path) -> None:
    """A number that another process holds by now, a dead one and an empty file are no engine."""
    pidfile = tmp_path / "docker.pid"
    assert running_daemon(str(pidfile)) is None
    for text in (str(os.getpid()), "", "4194305"):
        pidfile.write_text(text)
        assert running_daemon(str(pidfile)) is None
    named = tmp_path / "dockerd"
    named.symlink_to("/usr/bin/sleep")
    process = subprocess.Popen([named, "60"])
    try:
        pidfile.write_text(f"{process.pid}\n")
        assert running_daemon(str(pidfile)) == process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def make_wheel(path: Path) -> str:
    """A wheel with one script; its sha256."""
    import hashlib
    import zipfile

    info = "tiny_kit-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_kit-1.0.data/scripts/tiny", "#!/bin/sh\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-kit\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()
