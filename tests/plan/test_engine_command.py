"""Flags after ``--`` reach the engine, except those that the plan itself sets."""

import pytest
from planned import PCIE, host, planned

from kitctl.errors import Exit, KitError
from kitctl.plan.engine_command import engine_path, model_target
from kitctl.plan.types import PlannedModel


@pytest.mark.parametrize(
    "flag",
    ["--port", "--port=1", "--model-path=/x", "--tp-size", "--host=0.0.0.0", "--api-key", "--config=x"],
)
def test_a_flag_of_the_plan_is_refused(flag: str) -> None:
    with pytest.raises(KitError) as refused:
        planned("ep4", host(PCIE), engine_flags=(flag,))
    name = flag.partition("=")[0]
    assert refused.value.cause == f"{name} is set by the plan and may not be given after --"
    assert (refused.value.code, refused.value.exit_code) == ("flag-owned-by-kitctl", Exit.USAGE)


def test_flags_above_two_ranks_are_for_larger_groups() -> None:
    words = {tp: planned("tp8", host(PCIE), settings=(("parallel.tp", tp),)).argv for tp in (1, 2, 4)}
    assert {tp: "--disable-custom-all-reduce" in argv for tp, argv in words.items()} == {
        1: False,
        2: False,
        4: True,
    }


def test_paths_in_the_container() -> None:
    model = PlannedModel(model="a/b", role="target", folder="/store/a", inner="snapshots/1")
    assert (model_target(model), engine_path(model)) == ("/models/a--b", "/models/a--b/snapshots/1")
    assert engine_path(PlannedModel(model="a/b", role="target", folder="/x")) == "/models/a--b"
