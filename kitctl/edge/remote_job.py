"""The agent: on the remote host it starts a kitctl that outlives the ssh line, and sends what it says.

It is run there as ``python -m kitctl.edge.remote_job`` and needs nothing but the standard library. It reads one line
of JSON and a tar of carried files, then the words ``stop`` and ``done``; it writes frames: a kind, a length, bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

MARK = b"kitctl-line: ready\n"
CARRIED = "carried.json"
JOB_VARIABLE = "KITCTL_REMOTE_JOB"
_POLL_S = 0.03
_TICK_S = 2.0
_CHUNK = 64 * 1024
_OLD_S = 14 * 24 * 3600.0
_KILL_AFTER_S = 120.0


def main() -> int:
    """Answer one line from the other side, or with a folder as argument watch over its kitctl."""
    if len(sys.argv) > 1:
        return supervise(Path(sys.argv[1]), lock=int(sys.argv[2]), abandoned_s=float(sys.argv[3]))
    with suppress(BrokenPipeError, EOFError):
        serve(Heard(sys.stdin.fileno()), sys.stdout.buffer)
    return 0


class Heard:
    """What the other side says: words and bytes, without a buffer that ``select`` would not see."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._rest = b""

    def line(self) -> bytes:
        """The next line without its end; empty when the other side is gone."""
        while b"\n" not in self._rest:
            if not self._more():
                return b""
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes. Raises EOFError when the other side is gone before."""
        while len(self._rest) < size:
            if not self._more():
                raise EOFError
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def waits(self, wait_s: float) -> bool:
        """Whether a line, or the end, comes within ``wait_s`` seconds."""
        return b"\n" in self._rest or bool(select.select([self._handle], [], [], wait_s)[0])

    def _more(self) -> bool:
        chunk = os.read(self._handle, _CHUNK)
        self._rest += chunk
        return chunk != b""


def serve(said: Heard, out: BinaryIO) -> None:
    """One connection: start the job that the header describes unless it runs, then follow it."""
    out.write(MARK)
    out.flush()
    header = json.loads(said.line() or b"{}")
    if not header:
        return
    carried = said.take(header["size"])
    folder = jobs_dir() / header["job"]
    news = begin(folder, header, carried)
    _frame(out, b"n", json.dumps({"folder": str(folder), **news}).encode())
    if news["state"] != "gone":
        follow(folder, said, out, stdout_at=header["out"], stderr_at=header["err"])


def jobs_dir() -> Path:
    """Where jobs lie: below the user's state folder, readable by the user alone."""
    root = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    folder = Path(root) / "kitctl" / "remote"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def begin(folder: Path, header: dict[str, Any], carried: bytes) -> dict[str, str]:
    """Start the job, or find it: ``started``, ``running``, ``ended`` (nobody has read its end), ``gone``."""
    with (jobs_dir() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _sweep()
        since = _since(folder)
        if is_alive(folder):
            return {"state": "running", "since": since}
        if (folder / "exit").exists() and (header["kept"] or header["again"]):
            return {"state": "ended", "since": since}
        if header["again"]:
            return {"state": "gone"}
        shutil.rmtree(folder, ignore_errors=True)
        lay_down(folder, header, carried)
        _spawn(folder, header)
        return {"state": "started", "since": _since(folder)}


def is_alive(folder: Path) -> bool:
    """Whether the job's supervisor lives: it holds a lock that the kernel frees with the process."""
    try:
        handle = os.open(folder / "alive", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def lay_down(folder: Path, header: dict[str, Any], carried: bytes) -> None:
    """The job's folder with what was carried, and a note of each file's hash."""
    folder.mkdir(mode=0o700)
    with tarfile.open(fileobj=io.BytesIO(carried), mode="r:gz") as tar:
        tar.extractall(folder)  # made by kitctl itself; filters came with Python 3.11.4
    for name in ("files", "config"):
        (folder / name).mkdir(exist_ok=True)
    options = {name: {typed: str(folder / path) for typed, path in found.items()}
               for name, found in header["options"].items()}  # fmt: skip
    for path in (path for found in options.values() for path in found.values()):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    (folder / CARRIED).write_text(json.dumps(options))
    (folder / "laid.json").write_text(json.dumps(_hashes(folder)))
    job = {"argv": header["argv"], "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    (folder / "job.json").write_text(json.dumps(job))


def _spawn(folder: Path, header: dict[str, Any]) -> None:
    """A supervisor in a session of its own, which holds the lock from its first moment on."""
    handle = os.open(folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    seen = folder / "seen"
    seen.touch()
    own = {
        JOB_VARIABLE: str(folder),
        "KITCTL_KIT": str(folder / "kit"),
        "KITCTL_CONFIG_DIR": str(folder / "config"),
    }
    argv = [
        sys.executable,
        "-s",
        "-m",
        "kitctl.edge.remote_job",
        str(folder),
        str(handle),
        str(header["abandoned_s"]),
    ]
    subprocess.Popen(
        argv,
        env={**os.environ, **header["env"], **own},
        cwd=Path.home(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "supervisor.log").open("wb"),
        start_new_session=True,
        pass_fds=(handle,),
    )
    os.close(handle)


def supervise(folder: Path, *, lock: int, abandoned_s: float) -> int:
    """Run the job's kitctl to its end and note the exit code. ``abandoned_s`` 0: also when nobody listens."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = json.loads((folder / "job.json").read_text())["argv"]
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        child = subprocess.Popen(
            [sys.executable, "-s", "-m", "kitctl", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
    (folder / "pid").write_text(str(child.pid))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told_s = 0.0
    while child.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=1.0 if abandoned_s else None)
        if abandoned_s and child.poll() is None and _is_abandoned(folder, abandoned_s):
            late = told_s and time.monotonic() - told_s > _KILL_AFTER_S
            child.send_signal(signal.SIGKILL if late else signal.SIGINT)
            told_s = told_s or time.monotonic()
    code = child.returncode if child.returncode >= 0 else 128 - child.returncode
    half = folder / ".exit"
    half.write_text(str(code))
    half.rename(folder / "exit")
    os.close(lock)
    return 0


def _is_abandoned(folder: Path, abandoned_s: float) -> bool:
    return time.time() - (folder / "seen").stat().st_mtime > abandoned_s


def follow(folder: Path, said: Heard, out: BinaryIO, *, stdout_at: int, stderr_at: int) -> None:
    """Send what the job writes from these offsets on, until it has ended and the other side has all of it."""
    at = {b"e": stderr_at, b"o": stdout_at}
    names = {b"e": "stderr", b"o": "stdout"}
    ticked_s = 0.0
    while True:
        has_ended = not is_alive(folder)
        sent = 0
        for kind, name in names.items():
            chunk = _read(folder / name, at[kind])
            if chunk:
                _frame(out, kind, chunk)
                at[kind] += len(chunk)
                sent += len(chunk)
        if has_ended and not sent:
            _send_end(folder, said, out)
            return
        if not sent and not _heed(folder, said, wait_s=0.0 if has_ended else _POLL_S):
            return
        if time.monotonic() - ticked_s > _TICK_S:
            ticked_s = time.monotonic()
            (folder / "seen").touch()
            _frame(out, b"t", b"")


def _heed(folder: Path, said: Heard, *, wait_s: float) -> bool:
    """Do what the other side says; ``False`` when it is gone."""
    if not said.waits(wait_s):
        return True
    word = said.line()
    if word == b"stop":
        with suppress(OSError, ValueError):
            os.kill(int((folder / "pid").read_text()), signal.SIGINT)
    return word != b""


def _send_end(folder: Path, said: Heard, out: BinaryIO) -> None:
    """The files that the job wrote and its exit code; the job's folder goes once the other side has them."""
    _frame(out, b"f", _changed(folder))
    ended = folder / "exit"
    code = int(ended.read_text()) if ended.exists() else None
    _frame(out, b"x", json.dumps({"code": code}).encode())
    while (word := said.line()) not in (b"", b"done"):
        pass
    if word == b"done":
        shutil.rmtree(folder, ignore_errors=True)


def _changed(folder: Path) -> bytes:
    """A tar of the carried files that are new or not what they were."""
    before = json.loads((folder / "laid.json").read_text())
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, digest in _hashes(folder).items():
            if before.get(name) != digest:
                tar.add(folder / name, name, recursive=False)
    return raw.getvalue()


def _hashes(folder: Path) -> dict[str, str]:
    files = [path for name in ("files", "config") for path in sorted((folder / name).rglob("*"))]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file() and not path.is_symlink()
    }


def _read(path: Path, at: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(_CHUNK)
    except FileNotFoundError:
        return b""


def _frame(out: BinaryIO, kind: bytes, body: bytes) -> None:
    out.write(b"%s %d\n" % (kind, len(body)) + body)
    out.flush()


def _since(folder: Path) -> str:
    try:
        return str(json.loads((folder / "job.json").read_text())["since"])
    except (OSError, ValueError):
        return ""


def _sweep() -> None:
    """Remove jobs whose end nobody came to read for two weeks."""
    for folder in jobs_dir().iterdir():
        if folder.is_dir() and time.time() - folder.stat().st_mtime > _OLD_S and not is_alive(folder):
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
