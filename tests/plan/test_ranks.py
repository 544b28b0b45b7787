"""A plan becomes one rank's: alike on all hosts but for the rank, and nothing of one host alone is left in it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned import NVLINK, PCIE, STACKS, host, planned, rendered

from kitctl.edge.kubernetes_data import load_kubernetes_data
from kitctl.errors import KitError
from kitctl.plan.node_list import read_nodes, without_option
from kitctl.plan.rank import Rank
from kitctl.plan.ranks import flag_values, gpus_of_all, rank_differences
from kitctl.plan.types import Plan
from kitctl.render.as_planned import require_as_planned
from kitctl.render.compose import plan_json, stack_tree

SETTINGS = load_kubernetes_data()[1]
ALONE = (*SETTINGS.single_host_environment, *SETTINGS.single_host_tuning)
GPU_STACKS = [name for name in STACKS if len(planned(name, host(PCIE)).gpus.ids) > 1]


def rank(number: int, nodes: int = 2, interface: str = "eth7") -> Rank:
    return Rank(
        nodes=nodes,
        number=number,
        meeting="10.0.0.1:20000",
        interface=interface,
        dist_timeout_s=3600,
        not_across=ALONE,
    )


def plan_of(stack: str, number: int, facts: str = PCIE, **more: object) -> Plan:
    return planned(stack, host(facts), rank=rank(number), **more)


@pytest.mark.parametrize("facts", [PCIE, NVLINK])
@pytest.mark.parametrize("stack", GPU_STACKS)
def test_each_stack_of_the_kit_makes_ranks_that_are_one_server(stack: str, facts: str) -> None:
    first, second = plan_of(stack, 0, facts), plan_of(stack, 1, facts)
    at = first.argv.index("--node-rank") + 1
    assert (first.argv[at], second.argv[at]) == ("0", "1")
    assert [*first.argv[:at], *first.argv[at + 1 :]] == [*second.argv[:at], *second.argv[at + 1 :]]
    assert rank_differences({"a": plan_json(first), "b": plan_json(second)}) == ()
    whole = planned(stack, host(facts))
    assert len(first.gpus.ids) * 2 == len(whole.gpus.ids) == gpus_of_all(first) == gpus_of_all(whole)


@pytest.mark.parametrize("facts", [PCIE, NVLINK])
@pytest.mark.parametrize("stack", GPU_STACKS)
def test_nothing_of_one_host_alone_is_rendered(stack: str, facts: str) -> None:
    plan = plan_of(stack, 1, facts)
    text = "".join(text for name, text in rendered(plan).items() if name.endswith(".yaml"))
    assert not [name for name in ALONE if re.search(rf"^ +{name}:", text, re.MULTILINE)]
    service = stack_tree(plan)["services"]["engine"]
    assert (service["network_mode"], "ports" in service) == ("host", False)
    assert {service["environment"][f"{name}_SOCKET_IFNAME"] for name in ("NCCL", "GLOO")} == {"eth7"}
    flags = flag_values(plan.argv)
    assert (flags["--host"], flags["--port"]) == (plan.published.bind, str(plan.published.port))
    assert f"http://{plan.published.bind}:{plan.published.port}/health" in service["healthcheck"]["test"][-1]
    assert (flags["--nnodes"], flags["--dist-init-addr"]) == ("2", "10.0.0.1:20000")


def test_a_plan_of_one_host_is_as_it_was() -> None:
    service = stack_tree(planned("ep4", host(PCIE)))["services"]["engine"]
    assert ("network_mode" in service, "test" in service["healthcheck"]) == (False, False)
    assert "--nnodes" not in service["command"]


def test_what_a_user_sets_stays() -> None:
    plan = plan_of("ep4", 0, settings=(("environment.NCCL_IB_DISABLE", "1"),))
    assert stack_tree(plan)["services"]["engine"]["environment"]["NCCL_IB_DISABLE"] == "1"
    own = plan_of("ep4", 0, engine_flags=("--dist-timeout", "60"))
    assert own.argv.count("--dist-timeout") == 1


def test_gpus_that_do_not_share_out_are_refused() -> None:
    with pytest.raises(KitError) as refused:
        planned("ep4", host(PCIE), rank=rank(0, nodes=3))
    assert (refused.value.code, int(refused.value.exit_code)) == ("ranks-against-gpus", 2)


def test_an_add_on_with_services_is_refused() -> None:
    """It looks for the engine by name on a network that a rank does not join."""
    with pytest.raises(KitError) as refused:
        plan_of("ep4", 0, addons=("gateway",))
    assert (refused.value.code, int(refused.value.exit_code)) == ("addon-with-ranks", 2)


@pytest.mark.parametrize(
    ("field", "change"),
    [("argv", ["--tp-size", "8"]), ("image", {"reference": "other"}), ("overlays", ["nvlink"])],
)
def test_hosts_that_differ_are_named(field: str, change: object) -> None:
    first = plan_json(plan_of("ep4", 0))
    second = plan_json(plan_of("ep4", 1)) | {field: change}
    told = rank_differences({"gpu1": first, "gpu2": second})
    assert told
    assert all("gpu1 has " in line and "gpu2 has " in line for line in told)


def test_a_model_of_another_commit_is_named() -> None:
    second = plan_json(plan_of("ep4", 1))
    second["models"][0]["commit"] = "f" * 40
    (told,) = rank_differences({"a": plan_json(plan_of("ep4", 0)), "b": second})
    assert told.startswith("model target: a has moonshotai/Kimi-K2.6 at 0123")


def test_the_merged_project_must_keep_the_ranks_network() -> None:
    plan = plan_of("ep4", 1)
    service = stack_tree(plan)["services"]["engine"]
    merged = service | {
        "init": True,
        "read_only": True,
        "environment": {**service["environment"], "NCCL_IB_DISABLE": "1"},
        "network_mode": "bridge",
    }
    with pytest.raises(KitError) as refused:
        require_as_planned({"services": {"engine": merged}}, plan)
    assert refused.value.evidence == (
        "network: planned 'host', merged 'bridge'",
        "of one host alone: planned [], merged ['NCCL_IB_DISABLE']",
    )


@given(
    st.lists(st.sampled_from(["up", "ep4", "--json", "--set", "a=1", "--port"]), max_size=8), st.booleans()
)
def test_an_option_and_its_value_are_taken_out(words: list[str], joined: bool) -> None:
    given_words = ("--nodes=ssh://a,ssh://b",) if joined else ("--nodes", "ssh://a,ssh://b")
    for place in range(len(words) + 1):
        assert without_option((*words[:place], *given_words, *words[place:]), "--nodes") == tuple(words)


def test_hosts_are_named_by_what_tells_them_apart() -> None:
    assert [node.name for node in read_nodes("ssh://me@gpu1,ssh://gpu2:2222")] == ["gpu1", "gpu2"]
    assert [node.name for node in read_nodes("ssh://me@gpu:1,ssh://me@gpu:2")] == [
        "-p 1 me@gpu",
        "-p 2 me@gpu",
    ]
