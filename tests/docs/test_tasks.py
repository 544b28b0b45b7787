"""Every command of the task pages is run, in order, as a reader would type it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hubserver import Hub, Repo
from kitctl_process import KIT, KitUser, new_user
from model_world import CONFIG, random_bytes, safetensors
from stub_speed.image import speed_image
from tiny_kit import TinyKit, tiny_kit

pytestmark = pytest.mark.docker
PAGES = sorted((KIT / "docs" / "tasks").glob("*.md"))
CASES = KIT / "tests" / "cases"
BLOCK = re.compile(r"(?:<!-- exits (?P<code>\d+) -->\n)?```sh\n(?P<text>.*?)```", re.DOTALL)
CAMPAIGN = """
summary: two loads of the demo
stacks: [cpu-demo]
loads: [{concurrency: [1, 2], requests_per_stream: 3, output_tokens: 8}]
repeats: 1
"""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: its commands, and the exit code that its last one has."""

    text: str
    code: int


def blocks_of(page: Path) -> list[Block]:
    found = BLOCK.finditer(page.read_text())
    return [Block(text=one["text"], code=int(one["code"] or 0)) for one in found]


def model_repo(config: str) -> Repo:
    """A repository of a few kB with the shape of a real one."""
    weights = safetensors({"layer": random_bytes(200_000, 3)})
    return Repo(
        {"config.json": config.encode(), "model.safetensors": weights, "tokenizer_config.json": b"{}"}
    )


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TinyKit, str]]:
    """A kit whose CPU image answers at once, and the image's id."""
    with tiny_kit(tmp_path_factory.mktemp("kit")) as made:
        yield made, made.build(speed_image())


@pytest.fixture
def reader(kit: tuple[TinyKit, str], tmp_path: Path) -> Iterator[KitUser]:
    """Somebody who follows the pages: kitctl on the PATH, a hub, and the files that the pages name."""
    repos = {
        "Qwen/Qwen3-0.6B": model_repo((CASES / "models/qwen3-tiny/config.json").read_text()),
        "org/Qwen3-0.6B-DFlash": model_repo((CASES / "models/qwen3-tiny-dflash/config.json").read_text()),
    }
    with Hub(repos) as hub, new_user(tmp_path, KITCTL_KIT=str(kit[0].folder)) as user:
        kit[0].record(user, kit[1])
        programs = user.home / "bin"
        programs.mkdir()
        (programs / "kitctl").write_text(f'#!/bin/sh\nexec {sys.executable} -m kitctl "$@"\n')
        (programs / "kitctl").chmod(0o755)
        user.extra.update(
            PATH=f"{programs}:{os.environ['PATH']}",
            PYTHONPATH=str(KIT),
            HF_ENDPOINT=hub.url,
            NO_PROXY="127.0.0.1",
            PYTHON=sys.executable,
            XDG_CONFIG_HOME=str(user.home / ".config"),
        )
        for kind, name in (("pcie", "pcie-8x-rtxpro6000"), ("nvlink", "nvlink-8x-b200")):
            shutil.copy(CASES / "facts" / f"{name}.json", user.home / f"{kind}-host.json")
        (user.home / "small-campaign.yaml").write_text(CAMPAIGN)
        model = user.home / "my-model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(CONFIG))
        (model / "model.safetensors").write_bytes(safetensors({"layer": random_bytes(1000, 1)}))
        yield user


def as_typed(text: str, user: KitUser) -> str:
    """The block for a machine on which others serve too: this reader's own name and port."""
    text = re.sub(
        r"\bkitctl (up|down|status|logs|bench) cpu-demo\b", rf"kitctl \1 cpu-demo --name {user.name}", text
    )
    text = re.sub(r"\bkitctl up (.*)", rf"kitctl up \1 --port {user.port}", text.replace("   # ", "\n# "))
    return text.replace(":30001", f":{user.port}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_pages_commands_run(page: Path, reader: KitUser) -> None:
    blocks = blocks_of(page)
    assert blocks
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", as_typed(block.text, reader)],
            env=reader.env,
            cwd=reader.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == block.code, f"{block.text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_every_task_has_its_page() -> None:
    assert [page.stem for page in PAGES] == [
        "add-a-drafter", "add-a-model", "air-gap", "first-run", "nvlink-host", "pcie-host", "read-the-report",
        "two-nodes",
    ]  # fmt: skip


def test_no_command_of_a_page_is_left_out() -> None:
    """A block that is not run is no ``sh``; kitctl's lines stand in blocks that are."""
    for page in PAGES:
        rest = BLOCK.sub("", page.read_text())
        assert "```sh" not in rest, page
        assert not re.search(r"^kitctl ", rest, re.MULTILINE), page


def test_the_pages_links_lead_somewhere() -> None:
    for page in [*PAGES, *(KIT / "docs").glob("*.md"), KIT / "README.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page}: {target}"
