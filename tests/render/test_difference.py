"""Two plans differ by fields; of an argv only the flags that differ are told."""

from planned import PCIE, host, planned

from kitctl.render.compose import decisive
from kitctl.render.difference import argv_flags, differences


def test_equal_plans_do_not_differ() -> None:
    plan = decisive(planned("ep4", host(PCIE)))
    assert differences(plan, plan) == ()


def test_another_stack_differs_by_its_flags() -> None:
    before, after = planned("ep4", host(PCIE)), planned("ep8", host(PCIE), port=4000)
    assert differences(decisive(before), decisive(after)) == (
        "argv --ep-size: 4 -> 8",
        "published: 127.0.0.1:30001 -> 127.0.0.1:4000",
    )


def test_flags_that_came_and_went() -> None:
    before = {"argv": ["--a", "1", "--gone", "--b", "x", "y"]}
    after = {"argv": ["--a", "2", "--b", "x", "y", "--new", "z"]}
    assert differences(before, after) == (
        "argv --a: 1 -> 2",
        "argv --gone: set -> not set",
        "argv --new: not set -> z",
    )


def test_the_same_flags_in_another_order() -> None:
    assert differences({"argv": ["--a", "--b"]}, {"argv": ["--b", "--a"]}) == ("argv: order of the flags",)


def test_environment_lists_and_values() -> None:
    before = {"environment": {"A": "1", "B": "2"}, "gpus": ["nvidia", "0"], "restart": "no"}
    after = {"environment": {"A": "1", "C": "3"}, "gpus": ["nvidia", "1"], "restart": "unless-stopped"}
    assert differences(before, after) == (
        "environment B: 2 -> not set",
        "environment C: not set -> 3",
        "gpus: ['nvidia', '0'] -> ['nvidia', '1']",
        "restart: no -> unless-stopped",
    )


def test_a_record_of_an_older_form_differs_by_what_it_lacks() -> None:
    assert differences({}, {"restart": "no"}) == ("restart: None -> no",)


def test_flags_of_an_argv() -> None:
    assert argv_flags(["word", "--a", "--b", "1", "2", "--c=3"]) == {
        "--a": "set",
        "--b": "1 2",
        "--c=3": "set",
    }
