"""The pair that the kit ships is what its lock says, fits together, and is told the same wherever its answer stands."""

from pathlib import Path

import pytest
from planned import KIT, PCIE, host, planned

from kitctl.commands.plan_checks import config_text
from kitctl.edge.shipped import read_shipped
from kitctl.kit.drafter_facts import read_drafter_facts
from kitctl.kit.model_facts import read_model_facts
from kitctl.kit.models_lock import LockState, ModelEntry, find_entry, read_models_lock
from kitctl.kit.stack import Algorithm, Drafter

LOCK = read_models_lock((Path(__file__).parents[2] / "models.lock").read_text())
DEMO, DRAFTER = find_entry(LOCK, "kitctl/demo"), find_entry(LOCK, "kitctl/demo-drafter")


@pytest.mark.parametrize("entry", [DEMO, DRAFTER], ids=lambda entry: entry.repo)
def test_the_lock_names_every_byte_that_the_package_carries(entry: ModelEntry) -> None:
    assert (entry.state, entry.licence, read_shipped(entry)) == (LockState.SHIPPED, "apache-2.0", entry)


def test_both_are_small() -> None:
    assert (DEMO.size_bytes or 0) + (DRAFTER.size_bytes or 0) < 20e6


def test_the_drafter_fits_its_target() -> None:
    target = read_model_facts(config_text(DEMO))
    drafter = read_drafter_facts(config_text(DRAFTER), source="")
    assert DRAFTER.drafter_for == DEMO.repo
    assert (drafter.hidden_size, drafter.vocab_size) == (target.hidden_size, target.vocab_size)
    assert max(drafter.target_layer_ids or ()) < target.layers - 1
    wanted = Drafter(model=DRAFTER.repo, algorithm=Algorithm.DFLASH, block_size=drafter.block_size)
    assert planned("demo-dflash").stack.drafter == wanted


def test_a_rehearsal_expects_what_the_demo_stacks_expect() -> None:
    """Its model is the demo model, whatever stack it rehearses."""
    demo = planned("demo", host(PCIE)).stack.expect
    rehearsed = planned("ep4", rehearse=True).stack.expect
    assert (rehearsed.prompt, rehearsed.answer, rehearsed.prompts) == (demo.prompt, demo.answer, demo.prompts)
    assert KIT.overlays["cpu"].block.rehearsal["model"] == DEMO.repo
