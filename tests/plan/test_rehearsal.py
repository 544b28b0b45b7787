"""A rehearsal goes the same way with the demo model, and lists what it left out."""

import pytest
from planned import KIT, NVLINK, STACKS, host, planned

from kitctl.errors import Exit, KitError
from kitctl.plan.types import GpuDriver

GPU_STACKS = [name for name in STACKS if name != "cpu-demo"]


@pytest.mark.parametrize("stack", GPU_STACKS)
def test_any_stack_is_rehearsed_without_gpus(stack: str) -> None:
    plan = planned(stack, rehearse=True)
    assert (plan.overlays, plan.gpus.driver, plan.image.stage) == (("cpu",), GpuDriver.NONE, "cpu")
    assert [model.model for model in plan.models] == ["kitctl/demo"]
    assert plan.findings == ()
    assert plan.argv[plan.argv.index("--device") + 1] == "cpu"


def test_what_is_left_out_is_listed_with_the_reason() -> None:
    plan = planned("ep4-dflash", rehearse=True)
    assert plan.left_out == (
        ("drafter", "DFLASH needs a GPU (SGLang 0.5.16 refuses the device)"),
        ("parallel", "one process serves; ranks need GPUs"),
        ("engine.reasoning_parser", "the demo model does not think aloud"),
        ("engine.tool_call_parser", "the demo model calls no tools"),
        ("engine.trust_remote_code", "the demo model brings no code"),
        ("engine.graph_max_bs", "no CUDA graphs on a CPU"),
    )
    assert [word for word in plan.argv if "spec" in word or "parser" in word or "remote" in word] == []


def test_the_name_port_and_key_of_the_stack_stay() -> None:
    plan = planned("ep4-dflash", rehearse=True, port=4321, api_key_file="/key")
    assert (plan.model_name, plan.published.port, plan.api_key_file) == ("kimi-k2.6", 4321, "/key")
    assert plan.project == "kitctl-ep4-dflash--rehearsal"


def test_settings_of_what_is_left_out_are_left_out_too() -> None:
    settings = (("drafter.block_size", 4), ("parallel.tp", 2), ("engine.context_length", 512))
    plan = planned("ep4-dflash", rehearse=True, settings=settings)
    assert plan.stack.drafter is None
    assert (plan.stack.parallel.tp, plan.stack.engine.context_length) == (1, 512)


def test_a_bad_setting_is_refused_even_if_it_would_be_left_out() -> None:
    with pytest.raises(KitError) as refused:
        planned("ep4-dflash", rehearse=True, settings=(("drafter.windw", 4),))
    assert refused.value.cause == "--set drafter.windw: drafter.windw: unknown key"


def test_a_rehearsal_on_an_overlay_for_gpus_is_refused() -> None:
    with pytest.raises(KitError) as refused:
        planned("ep4", host(NVLINK), rehearse=True, overlay="nvlink")
    assert (refused.value.code, refused.value.exit_code) == ("rehearsal-on-gpus", Exit.USAGE)


def test_a_stack_for_the_cpu_keeps_its_own_settings_over_the_overlays() -> None:
    plan = planned("cpu-demo", settings=(("engine.max_running_requests", 3),))
    assert (plan.stack.engine.max_running_requests, plan.stack.engine.attention_backend) == (
        3,
        "torch_native",
    )
    assert (plan.left_out, plan.rehearsal) == ((), False)


def test_each_thing_that_is_left_out_is_a_setting_of_stacks() -> None:
    paths = KIT.overlays["cpu"].block.leaves_out
    settings = planned("ep4-dflash", host(NVLINK)).stack
    for path in paths:
        head, _, rest = path.partition(".")
        assert hasattr(getattr(settings, head), rest) if rest else hasattr(settings, head)
