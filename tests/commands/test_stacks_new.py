"""``kitctl stacks new`` writes a stack that ``kitctl plan`` then plans."""

import json
from pathlib import Path

from kitctl_process import KitUser

FACTS = Path(__file__).parents[1] / "cases" / "facts" / "pcie-8x-rtxpro6000.json"
K26 = "moonshotai/Kimi-K2.6"
WORDS = ("stacks", "new", K26, "--facts", str(FACTS), "--name", "mine")


def test_a_stack_is_proposed_written_and_planned(kit_user: KitUser) -> None:
    proposed = kit_user.run(*WORDS, "--pick", "3", "--write", "--json")
    data = json.loads(proposed.stdout)
    assert (proposed.returncode, data["schema"], data["picked"]) == (0, "kitctl.stacks.new/1", 3)
    assert [(one["tp"], one["ep"]) for one in data["candidates"]][:4] == [(8, 1), (8, 2), (8, 4), (8, 8)]
    assert all(one["reasons"] for one in data["candidates"])
    planned = kit_user.run("plan", "mine", "--facts", str(FACTS), "--skip", "model-unlocked", "--json")
    plan = json.loads(planned.stdout)
    assert planned.returncode == 0
    assert plan["memory"]["verdict"] == "fits"
    assert plan["settings"]["parallel"] == {"tp": 8, "ep": 4, "pp": 1, "dp": 1}


def test_a_file_that_is_there_is_not_replaced(kit_user: KitUser) -> None:
    assert kit_user.run(*WORDS, "--write").returncode == 0
    again = kit_user.run(*WORDS, "--write")
    assert again.returncode == 2
    assert again.stderr.splitlines()[0].endswith("is there already (stack-exists)")


def test_no_layout_fits_4_gpus(kit_user: KitUser) -> None:
    done = kit_user.run(*WORDS, "--gpus", "0-3")
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == (
        f"kitctl: no layout of {K26} fits 4 GPUs of 97887 MiB (no-layout-fits)"
    )


def test_an_unknown_model_gets_its_near_name(kit_user: KitUser) -> None:
    done = kit_user.run("stacks", "new", "moonshotai/Kimi-K2.7", "--facts", str(FACTS))
    assert done.returncode == 2
    assert K26 in done.stderr
