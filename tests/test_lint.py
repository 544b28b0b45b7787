"""Lint, format and types hold: they run as tests, so that pytest alone is the check."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "argv",
    [
        ["ruff", "check", "--quiet", "kitctl", "tests"],
        ["ruff", "format", "--check", "--quiet", "kitctl", "tests"],
        ["mypy", "kitctl", "tests/gpu/prove.py", "tests/gpu/collective_trial.py"],
    ],
    ids=["lint", "format", "types"],
)
def test_tree_is_clean(argv: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *argv], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout + done.stderr == "" or done.returncode == 0, done.stdout + done.stderr
