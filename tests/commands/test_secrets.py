"""An API key and a hub token that are planted with a recognisable value are found nowhere but in the key's own file."""

from __future__ import annotations

import json
import secrets
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kitctl_process import KitUser, docker, new_user

KEY = f"planted-key-{secrets.token_hex(8)}"
TOKEN = f"hf_planted{secrets.token_hex(10)}"
WORDS = (KEY.encode(), TOKEN.encode())


@pytest.fixture
def user(tmp_path: Path) -> Iterator[KitUser]:
    """A user who has a hub token in the environment and a key in a file."""
    with new_user(tmp_path, HF_TOKEN=TOKEN) as made:
        key = made.home / "keys" / "key"
        key.parent.mkdir()
        key.write_text(f"{KEY}\n")
        key.chmod(0o600)
        yield made


def key_of(user: KitUser) -> str:
    return str(user.home / "keys" / "key")


def holds(content: bytes) -> bool:
    return any(word in content for word in WORDS)


def files_that_hold(folder: Path) -> list[str]:
    """Files below ``folder`` with a planted word in them, in the members of archives too."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        contents = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                contents += [archive.read(name) for name in archive.namelist()]
        found += [str(path.relative_to(folder))] if any(map(holds, contents)) else []
    return found


@dataclass
class Overheard:
    """Command lines of the machine that held a planted word."""

    argv: set[str] = field(default_factory=set)
    looks: int = 0

    def look(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if holds(words):
                self.argv.add(words.replace(b"\0", b" ").decode())
        self.looks += 1


@contextmanager
def listening() -> Iterator[Overheard]:
    """Look at every process's command line, again and again, while the block runs."""
    heard, done = Overheard(), threading.Event()

    def listen() -> None:
        while not done.wait(0.02):
            heard.look()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    yield heard
    done.set()
    listener.join()


@pytest.mark.parametrize("target", ["compose", "shell", "systemd"])
def test_a_rendered_folder_keeps_the_key_in_one_file_of_its_own(user: KitUser, target: str) -> None:
    folder = user.home / "out"
    done = user.run("render", "cpu-demo", "--to", target, "-o", str(folder), "--api-key-file", key_of(user))
    assert not holds((done.stdout + done.stderr).encode())
    assert files_that_hold(folder) == ["api-key"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_rendered_cluster_holds_no_key(user: KitUser) -> None:
    folder = user.home / "out"
    words = (
        "render",
        "ep8",
        "--to",
        "kubernetes",
        "--nodes",
        "2",
        "--gpus-per-node",
        "4",
        "-o",
        str(folder),
        "--api-key-file",
        key_of(user),
    )
    done = user.run(*words, "--skip", "model-unlocked")
    assert not holds((done.stdout + done.stderr).encode())
    assert (folder / "server.yaml").exists(), done.stdout + done.stderr
    assert files_that_hold(folder) == []


def test_what_is_said_and_kept_holds_neither(user: KitUser) -> None:
    key = ("--api-key-file", key_of(user))
    for words in (
        ("plan", "cpu-demo", *key),
        ("plan", "cpu-demo", *key, "--json"),
        ("up", "cpu-demo", *key, "--dry-run", "--json"),
        ("doctor", "--json"),
        ("models", "list", "--json"),
        ("plan", "cpu-demo", "--api-key-file", "/nowhere", "--json"),
    ):
        done = user.run(*words)
        assert not holds((done.stdout + done.stderr).encode()), words
    assert [path for path in files_that_hold(user.home) if path != "keys/key"] == []


def test_a_bug_report_holds_neither(user: KitUser) -> None:
    code = (
        "import sys, kitctl.cli as cli\n"
        "cli.COMMANDS['stacks'] = cli.Command('json', 'no command at all')\n"
        f"sys.exit(cli.main(['stacks', {KEY!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=user.env, cwd=user.home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert not holds((done.stdout + done.stderr).encode())
    assert [path for path in files_that_hold(user.home) if path != "keys/key"] == []


@pytest.mark.docker
def test_a_bundle_holds_neither(user: KitUser, stub: str) -> None:
    folder = user.home / "bundle"
    with listening() as heard:
        done = user.run("bundle", "export", "cpu-demo", "--image", stub, "-o", str(folder))
    assert done.returncode == 0, done.stderr
    assert not holds((done.stdout + done.stderr).encode())
    assert files_that_hold(folder) == []
    assert (heard.argv, heard.looks > 3) == (set(), True)


@pytest.mark.docker
@pytest.mark.slow
def test_a_live_stack_shows_neither(user: KitUser) -> None:
    """The real engine, which logs its arguments: only who sends the key is answered, and nothing tells it."""
    words = user.up("--api-key-file", key_of(user), "--no-build")
    with listening() as heard:
        up = user.run(*words, timeout_s=400)
        assert up.returncode == 0, up.stderr
        (container,) = user.containers()
        said = [up.stdout, up.stderr, *shown_by_the_engine(container)]
        for verb in (("status",), ("logs",), ("plan",), ("diagnose",)):
            done = user.run(*verb, "cpu-demo", *(("--name", user.name) if verb != ("diagnose",) else ()))
            said += [done.stdout, done.stderr]
        runs = user.json("runs", "list")
        said += [json.dumps(runs), user.run("runs", "show", "--json").stdout]
    answers = [ask(user, None), ask(user, KEY)]
    inside = docker("exec", container, "python", "-c", SEARCH, KEY[:8], KEY[8:], TOKEN[:8], TOKEN[8:])
    assert user.run("down", "cpu-demo", "--name", user.name).returncode == 0
    assert answers == [401, 200]
    assert [text for text in said if holds(text.encode())] == []
    assert (heard.argv, heard.looks > 100) == (set(), True)
    assert inside == "/run/secrets/api-key"
    kept = [path for path in files_that_hold(user.home) if path != "keys/key"]
    assert [Path(path).name for path in kept] == ["api-key"]
    assert stat.S_IMODE((user.home / kept[0]).parent.stat().st_mode) == 0o700


def shown_by_the_engine(container: str) -> list[str]:
    """All that the engine tells whoever may ask it."""
    image = docker("inspect", "--format", "{{.Image}}", container)
    return [
        docker("inspect", container),
        docker("image", "inspect", image),
        docker("history", "--no-trunc", image),
        docker("top", container, "-ef"),
        docker("logs", container),
        docker("diff", container),
    ]


def ask(user: KitUser, key: str | None) -> int:
    import requests

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    url = f"http://127.0.0.1:{user.port}/v1/chat/completions"
    return requests.post(url, json=body, headers=headers, timeout=60).status_code


SEARCH = """
import os, sys
words = [(sys.argv[1] + sys.argv[2]).encode(), (sys.argv[3] + sys.argv[4]).encode()]
found = []
for root in ("/run", "/tmp", "/var", "/etc", "/root", "/home", "/cache", "/dev/shm"):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                content = open(path, "rb").read() if os.path.isfile(path) else b""
            except OSError:
                continue
            found += [path] if any(word in content for word in words) else []
for process in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            content = open(f"/proc/{process}/{name}", "rb").read()
        except OSError:
            continue
        found += [f"/proc/{process}/{name}"] if any(word in content for word in words) else []
print(*found)
"""
