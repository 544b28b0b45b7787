"""Tab in the real shells: verbs, options, choices, and the names of stacks, overlays and models as they are now."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kitctl_process import KIT, KitUser

BASH = """
eval "$(kitctl completion bash)"
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete kitctl
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'kitctl completion fish | source; complete --do-complete "$argv[1]"'

CASES = {
    "kitctl comp": ["compare", "completion"],
    "kitctl bundle ": ["export", "import", "verify"],
    "kitctl up cpu": ["cpu-demo"],
    "kitctl up own-": ["own-one", "own-two"],
    "kitctl accept cpu-demo --parity own-": ["own-one", "own-two"],
    "kitctl accept --parity-": ["--parity-name"],
    "kitctl plan cpu-demo --diff own-o": ["own-one"],
    "kitctl plan --overlay nv": ["nvlink"],
    "kitctl plan --add no": ["no-multicast"],
    "kitctl models pull moonshotai/": ["moonshotai/Kimi-K2.6"],
    "kitctl render --to sys": ["systemd"],
    "kitctl up --auto": ["--auto-remedy"],
    "kitctl schema camp": ["campaign"],
    "kitctl down no-such": [],
}


@pytest.fixture
def user(kit_user: KitUser) -> Iterator[KitUser]:
    """A user with two stacks of their own, and ``kitctl`` on the PATH."""
    for name in ("own-one", "own-two"):
        kit_user.write_config(
            f"stacks/{name}.yaml", "summary: mine\nmodel: kitctl/demo\nimage: {stage: cpu}\n"
        )
    program = kit_user.home / "bin" / "kitctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kitctl "$@"\n')
    program.chmod(0o755)
    kit_user.extra["PATH"] = f"{program.parent}:/usr/local/bin:/usr/bin:/bin"
    kit_user.extra["PYTHONPATH"] = str(KIT)
    return kit_user


def candidates(user: KitUser, argv: list[str]) -> list[str]:
    done = subprocess.run(argv, env=user.env, cwd=user.home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words = [line.partition("\t")[0].strip() for line in done.stdout.splitlines()]
    return sorted(word for word in words if word)


@pytest.mark.parametrize("line", CASES)
def test_bash(user: KitUser, line: str) -> None:
    assert candidates(user, ["bash", "--norc", "-c", BASH, "bash", line]) == CASES[line]


@pytest.mark.parametrize("line", CASES)
def test_fish(user: KitUser, line: str) -> None:
    fish = shutil.which("fish")
    assert fish, "no fish: install Debian's fish first"
    assert candidates(user, [fish, "--no-config", "-c", FISH, line]) == CASES[line]


ZSH_RC = """
autoload -Uz compinit && compinit -u -D
PS1='ready> '
unsetopt list_beep
eval "$(kitctl completion zsh)"
"""


@pytest.mark.parametrize(
    ("typed", "became"),
    [
        ("kitctl up cpu\t", "kitctl up cpu-demo"),
        ("kitctl completi\t", "kitctl completion"),
        ("kitctl plan --overlay nvl\t", "kitctl plan --overlay nvlink"),
        ("kitctl up own-o\t", "kitctl up own-one"),
    ],
)
def test_zsh(user: KitUser, typed: str, became: str, tmp_path: Path) -> None:
    """A real zsh on a terminal: what is typed, then Tab."""
    zsh = shutil.which("zsh")
    assert zsh, "no zsh: install Debian's zsh first"
    (user.home / ".zshrc").write_text(ZSH_RC)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(user.home)
        os.execve(zsh, ["zsh", "-i"], user.env | {"TERM": "dumb", "ZDOTDIR": str(user.home)})
    try:
        read_until(terminal, "ready> ")
        os.write(terminal, typed.encode())
        assert became in read_until(terminal, became)
    finally:
        os.write(terminal, b"\x03exit\n")
        os.close(terminal)
        os.waitpid(child, 0)


def read_until(terminal: int, text: str) -> str:
    """What the terminal shows until ``text`` stands in it, or until half a minute has passed."""
    shown, deadline = "", time.monotonic() + 30
    while text not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
            shown = shown.replace("\r", "").replace("\x1b[K", "").replace("\x07", "")
    return shown


def test_the_code_is_a_contract(kit_user: KitUser) -> None:
    body = kit_user.json("completion", "bash")
    assert (body["schema"], body["shell"]) == ("kitctl.completion/1", "bash")
    assert kit_user.run("completion", "bash").stdout.splitlines() == body["code"].splitlines()
    assert kit_user.run("completion", "tcsh").returncode == 2
