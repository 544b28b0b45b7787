"""The README's tables are what the kit says; its commands are what CI runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kitctl.edge.kit_files import load_kit_texts
from kitctl.errors import EXIT_MEANINGS
from kitctl.kit.catalog import resolve_stack, stack_names

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def stacks_table() -> str:
    texts = load_kit_texts(str(ROOT))
    rows = ["| stack | GPUs | what |", "|---|---|---|"]
    for name in stack_names(texts):
        stack = resolve_stack(texts, name).stack
        gpus = "none" if stack.image.stage == "cpu" else str(stack.gpu_count)
        rows.append(f"| `{name}` | {gpus} | {stack.summary} |")
    return "\n".join(rows)


def exits_table() -> str:
    rows = ["| code | meaning |", "|---|---|"]
    return "\n".join(rows + [f"| {int(code)} | {meaning} |" for code, meaning in EXIT_MEANINGS.items()])


def help_block() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kitctl", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "110", "PATH": ""},
    )
    return f"```text\n{done.stdout.rstrip()}\n```"


BLOCKS = {"stacks": stacks_table, "exits": exits_table, "help": help_block}


@pytest.mark.parametrize("name", BLOCKS)
def test_block_is_what_the_kit_says(name: str, accept: bool) -> None:
    text = README.read_text()
    block = re.compile(rf"(<!-- {name}: [^>]*-->\n)(.*?)(<!-- end -->)", re.DOTALL)
    wanted = f"\n{BLOCKS[name]()}\n\n"
    if accept:
        README.write_text(block.sub(lambda found: found[1] + wanted + found[3], text))
        text = README.read_text()
    found = block.search(text)
    assert found is not None
    assert found[2] == wanted


def test_ci_runs_the_readme_test_command() -> None:
    commands = re.findall(r"```sh\n(.+?)\n```", README.read_text(), re.DOTALL)
    ci = (ROOT / ".ci" / "run").read_text()
    assert commands[1] in ci
