"""The agent alone: jobs that go on, are found again, are ended when nobody listens, and leave nothing behind."""

import io
import json
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


def carried() -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for path in (ROOT / "models.lock", *sorted((ROOT / "compose").rglob("*.yaml"))):
            tar.add(path, f"kit/{path.relative_to(ROOT)}")
    return raw.getvalue()


def hang_up_as_under_ssh() -> None:
    """A hangup ends the agent, also where the tests were started with nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Agent:
    """The agent's process, spoken to as the other side of the line does."""

    def __init__(self, home: Path) -> None:
        env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kitctl.edge.remote_job"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=hang_up_as_under_ssh,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.said, self.out = self.process.stdin, self.process.stdout
        assert self.out.readline() == b"kitctl-line: ready\n"

    def begin(self, *argv: str, job: str = "job", **more: Any) -> None:
        body = b"" if more.get("again") else carried()
        header = {
            "job": job, "argv": argv, "options": {}, "env": {}, "kept": False, "again": False, "abandoned_s": 0.0,
            "out": 0, "err": 0, "size": len(body),
        } | more  # fmt: skip
        self.say(json.dumps(header).encode() + b"\n" + body)

    def say(self, data: bytes) -> None:
        self.said.write(data)
        self.said.flush()

    def frame(self, *, ticks: bool = False) -> tuple[str, bytes]:
        while True:
            kind, _, size = self.out.readline().decode().partition(" ")
            body = self.out.read(int(size)) if size else b""
            if kind != "t" or ticks:
                return kind, body

    def until(self, last: str) -> dict[str, bytes]:
        """What came, joined by kind, up to the first frame of kind ``last``."""
        found: dict[str, bytes] = {}
        while True:
            kind, body = self.frame()
            found[kind] = found.get(kind, b"") + body
            if kind in (last, ""):
                return found


@contextmanager
def agent(home: Path) -> Iterator[Agent]:
    one = Agent(home)
    try:
        yield one
    finally:
        one.said.close()
        one.out.close()
        one.process.wait(20)


def folders(home: Path) -> list[str]:
    return sorted(path.name for path in (home / ".local/state/kitctl/remote").iterdir() if path.is_dir())


def wait_until(true: Any, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_ended(home: Path) -> bool:
    return (home / ".local/state/kitctl/remote/job/exit").exists()


def test_a_job_runs_and_leaves_nothing(tmp_path: Path) -> None:
    with agent(tmp_path) as one:
        one.begin("stacks", "--json")
        came = one.until("x")
        assert json.loads(came["n"])["state"] == "started"
        assert json.loads(came["o"])["stacks"]
        assert json.loads(came["x"]) == {"code": 0}
        assert folders(tmp_path) == ["job"]
        one.say(b"done\n")
        assert one.process.wait(20) == 0
    assert folders(tmp_path) == []


def test_a_job_whose_line_broke_is_found_again_from_where_it_was(tmp_path: Path) -> None:
    with agent(tmp_path) as one:
        one.begin("stacks")
        whole = one.until("x")["o"]
    with agent(tmp_path) as two:
        two.begin("stacks", again=True, out=10)
        came = two.until("x")
        assert (json.loads(came["n"])["state"], came["o"]) == ("ended", whole[10:])


def test_an_unread_end_is_told_once_and_only_where_it_is_kept(tmp_path: Path) -> None:
    for kept, state in ((True, "started"), (True, "ended"), (False, "started")):
        with agent(tmp_path) as one:
            one.begin("stacks", kept=kept)
            assert json.loads(one.until("x")["n"])["state"] == state


def test_what_is_gone_is_told(tmp_path: Path) -> None:
    with agent(tmp_path) as one:
        one.begin("stacks", again=True)
        assert one.frame()[0] == "n"
        assert one.frame() == ("", b"")


def test_two_lines_follow_one_job(tmp_path: Path) -> None:
    slow = {"env": {"PYTHONPATH": f"{slow_kitctl(tmp_path)}:{ROOT}"}}
    with agent(tmp_path) as one, agent(tmp_path) as two:
        one.begin("stacks", **slow)
        assert json.loads(one.until("n")["n"])["state"] == "started"
        two.begin("stacks", **slow)
        assert json.loads(two.until("n")["n"])["state"] == "running"
        (tmp_path / "go").touch()
        assert one.until("x")["o"] == two.until("x")["o"] == b"gone on\n"


@pytest.mark.parametrize("how", ["stop", "abandoned"])
def test_a_job_is_ended_by_a_word_or_by_silence(tmp_path: Path, how: str) -> None:
    slow = {"env": {"PYTHONPATH": f"{slow_kitctl(tmp_path)}:{ROOT}"}}
    with agent(tmp_path) as one:
        one.begin("stacks", abandoned_s=1.0 if how == "abandoned" else 0.0, **slow)
        one.until("n")
        wait_until((tmp_path / "begun").exists)
        if how == "stop":
            one.say(b"stop\n")
            assert json.loads(one.until("x")["x"]) == {"code": 130}
    wait_until(lambda: has_ended(tmp_path))
    assert (tmp_path / ".local/state/kitctl/remote/job/exit").read_text() == "130"


def test_a_job_goes_on_when_the_line_breaks(tmp_path: Path) -> None:
    slow = {"env": {"PYTHONPATH": f"{slow_kitctl(tmp_path)}:{ROOT}"}}
    one = Agent(tmp_path)
    one.begin("stacks", **slow)
    one.until("n")
    one.process.send_signal(signal.SIGHUP)
    one.process.wait(20)
    one.said.close()
    one.out.close()
    (tmp_path / "go").touch()
    wait_until(lambda: has_ended(tmp_path))
    assert (tmp_path / ".local/state/kitctl/remote/job/stdout").read_text() == "gone on\n"


def test_the_jobs_folder_is_the_users_alone(tmp_path: Path) -> None:
    with agent(tmp_path) as one:
        one.begin("stacks")
        one.until("x")
        places = [tmp_path / ".local/state/kitctl/remote", tmp_path / ".local/state/kitctl/remote/job"]
        assert [path.stat().st_mode & 0o777 for path in places] == [0o700, 0o700]


def slow_kitctl(home: Path) -> Path:
    """A package named kitctl before the real one: its ``__main__`` waits for a file."""
    package = home / "slow" / "kitctl"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__path__.append({str(ROOT / 'kitctl')!r})\n")
    (package / "__main__.py").write_text(
        "import sys, time\nfrom pathlib import Path\n"
        f"home = Path({str(home)!r})\n(home / 'begun').touch()\n"
        "try:\n    while not (home / 'go').exists():\n        time.sleep(0.02)\n"
        "except KeyboardInterrupt:\n    sys.exit(130)\nprint('gone on')\n"
    )
    return package.parent
