from kitctl.plan.plan_diff import Difference, diff_plans


def test_flags_environment_memory_and_findings_are_compared() -> None:
    here = {
        "argv": ["--tp-size", "8", "--enable-metrics"],
        "environment": {"A": "1"},
        "mounts": [{"kind": "bind", "source": "/a"}],
        "memory": {"kv_tokens": 5, "taken": [1]},
        "findings": [{"code": "x", "severity": "warn"}],
    }
    there = {
        "argv": ["--tp-size", "4", "--enable-metrics"],
        "environment": {"A": "1", "B": "2"},
        "mounts": [{"kind": "bind", "source": "/b"}],
        "memory": {"kv_tokens": 6, "taken": [2]},
        "findings": [],
    }
    assert diff_plans(here, there) == (
        Difference(field="argv.--tp-size", here="8", there="4"),
        Difference(field="mounts[0].source", here="/a", there="/b"),
        Difference(field="memory.kv_tokens", here=5, there=6),
        Difference(field="finding.x", here="warn", there=None),
        Difference(field="environment.B", here=None, there="2"),
    )


def test_a_plan_does_not_differ_from_itself_nor_from_a_record_without_memory() -> None:
    plan = {"argv": ["--a"], "memory": None, "findings": None}
    assert diff_plans(plan, plan) == ()
