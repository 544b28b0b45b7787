"""A dry run writes nothing at all: no folder, no lock, no record. Every verb that has one is here."""

from pathlib import Path

import pytest
from kitctl_process import KitUser
from test_help import parsers

from kitctl.cli import COMMANDS

VERBS = {
    "up": ("up", "cpu-demo"),
    "campaign run": ("campaign", "run", "rehearse.yaml"),
    "models prune": ("models", "prune"),
}
CAMPAIGN = """\
summary: one stack
stacks: [ep4]
repeats: 1
loads: [{name: kit, dataset: kit, concurrency: [1]}]
"""


def test_every_verb_with_a_dry_run_is_here() -> None:
    found = [parser for verb in COMMANDS for parser in parsers(verb)]
    dry = {p.prog.removeprefix("kitctl ") for p in found if "--dry-run" in p._option_string_actions}
    assert dry == set(VERBS)


@pytest.mark.docker
@pytest.mark.parametrize("words", [*VERBS.values(), (*VERBS["campaign run"], "--fresh")], ids=" ".join)
def test_a_dry_run_writes_nothing(kit_user: KitUser, words: tuple[str, ...]) -> None:
    (kit_user.home / "rehearse.yaml").write_text(CAMPAIGN)
    before = tree(kit_user.home)
    done = kit_user.run(*words, "--dry-run")
    assert done.returncode in (0, 3), done.stderr
    assert tree(kit_user.home) == before


@pytest.mark.docker
def test_a_dry_run_waits_for_nobody_and_says_who_works(kit_user: KitUser) -> None:
    """A lock that another kitctl holds refuses it as it would refuse the run itself."""
    import fcntl

    lock = kit_user.state / "locks" / f"kitctl-cpu-demo--{kit_user.name}.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        held.write("pid 1: kitctl up cpu-demo\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        done = kit_user.run(*kit_user.up("--dry-run"))
    assert (done.returncode, "pid 1: kitctl up cpu-demo" in done.stderr) == (3, True)


def tree(folder: Path) -> dict[str, float]:
    """Every path below ``folder`` and when it changed last."""
    return {str(path): path.stat().st_mtime for path in sorted(folder.rglob("*"))}
