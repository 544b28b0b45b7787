"""The workflow file for a user's forge runs commands that exist, for the pin sets that the kit holds."""

import argparse
import re
import shlex
from pathlib import Path

import yaml

from kitctl.commands import build
from kitctl.kit.pins import Stage, read_pins

IMAGES = Path(__file__).parents[2] / "images"
JOB = yaml.safe_load((IMAGES / "ci" / "images.yml").read_text(encoding="utf-8"))["jobs"]["image"]


def test_it_builds_every_pin_set_and_stage() -> None:
    pins = read_pins((IMAGES / "sglang" / "pins.toml").read_text(encoding="utf-8"), source="pins.toml")
    matrix = JOB["strategy"]["matrix"]
    assert matrix == {"release": list(pins.pin_sets), "stage": [stage.value for stage in Stage]}


def test_its_build_command_is_one_that_kitctl_takes() -> None:
    line = next(step["run"] for step in JOB["steps"] if "kitctl build" in step.get("run", ""))
    words = shlex.split(re.sub(r"\$\{\{ matrix\.(\w+) \}\}", r"\1", line).replace("stage --", "cpu --"))
    own = words[words.index("build") + 1 : words.index("--json")]
    parser = argparse.ArgumentParser()
    build.add_arguments(parser)
    assert parser.parse_args(own).progress == "plain"


def test_the_tests_that_it_names_exist() -> None:
    root = IMAGES.parent
    named = re.findall(r"tests/\S+\.py", " ".join(step.get("run", "") for step in JOB["steps"]))
    assert named
    assert [name for name in named if not (root / name).is_file()] == []
