from pathlib import Path

import msgspec
import pytest

from kitctl.errors import Exit, KitError
from kitctl.kit.stack import Algorithm, Drafter, EngineSettings, Graphs, Parallel, Serve, Stack
from kitctl.plan.flag_spelling import FlagTable, Spellings, engine_argv, read_spellings

DATA = Path(__file__).parents[2] / "kitctl" / "data"
SPELLINGS: Spellings = read_spellings((DATA / "engine_flags.toml").read_text())
EP4 = Stack(
    name="ep4-dflash",
    summary="Kimi K2.6, 8 GPUs, experts in 4 groups, DFlash",
    model="kimi-k2.6",
    drafter=Drafter(model="kimi-k2.6-dflash", block_size=8, draft_window=4096, attention_backend="triton"),
    parallel=Parallel(tp=8, ep=4),
    engine=EngineSettings(
        mem_fraction_static=0.85, trust_remote_code=True, graph_max_bs=32, flags={"decode_log_interval": 10}
    ),
    serve=Serve(model_name="kimi"),
)


def spell(stack: Stack, release: str, *, overlay: FlagTable | None = None, cap: int | None = None) -> str:
    drafter_path = "/models/drafter" if stack.drafter else None
    words = engine_argv(
        stack,
        spellings=SPELLINGS,
        release=release,
        model_path="/models/target",
        drafter_path=drafter_path,
        port=30001,
        bind="0.0.0.0",
        overlay_flags=overlay,
        max_total_tokens=cap,
    )
    return " ".join(words)


HEAD = "--model-path /models/target --served-model-name kimi --host 0.0.0.0 --port 30001 --trust-remote-code"
SIZE = "--tp-size 8 --ep-size 4 --mem-fraction-static 0.85"
SPEC = "--speculative-algorithm DFLASH --speculative-draft-model-path /models/drafter"
TAIL = "--speculative-draft-attention-backend triton --enable-metrics --decode-log-interval 10"
NEW = (
    f"{HEAD} {SIZE} --cuda-graph-backend-prefill disabled --cuda-graph-max-bs-decode 32 "
    f"{SPEC} --speculative-dflash-block-size 8 --speculative-draft-window-size 4096 {TAIL}"
)
OLD = (
    f"{HEAD} {SIZE} --disable-piecewise-cuda-graph --cuda-graph-max-bs 32 "
    f"{SPEC} --speculative-dflash-block-size 8 --speculative-dflash-draft-window-size 4096 {TAIL}"
)


@pytest.mark.parametrize(("release", "expected"), [("0.5.11", OLD), ("0.5.16", NEW), ("0.5.23", NEW)])
def test_one_stack_is_spelled_in_the_flags_of_each_release(release: str, expected: str) -> None:
    assert spell(EP4, release) == expected


@pytest.mark.parametrize(
    ("graphs", "release", "words"),
    [
        (Graphs.ON, "0.5.16", ""),
        (Graphs.OFF, "0.5.16", "--cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled "),
        (Graphs.OFF, "0.5.13.post1", "--disable-cuda-graph --disable-piecewise-cuda-graph "),
        (None, "0.5.16", ""),
    ],
)
def test_graphs_without_a_drafter(graphs: Graphs | None, release: str, words: str) -> None:
    stack = Stack(name="plain", summary="", model="m", engine=EngineSettings(graphs=graphs))
    assert spell(stack, release) == (
        "--model-path /models/target --served-model-name m --host 0.0.0.0 --port 30001 "
        f"--tp-size 1 --ep-size 1 {words}--enable-metrics"
    )


def test_pipeline_and_data_parallel_sizes_appear_only_above_one() -> None:
    stack = Stack(name="pp", summary="", model="m", parallel=Parallel(tp=2, pp=4, dp=2))
    assert "--tp-size 2 --ep-size 1 --pp-size 4 --dp-size 2" in spell(stack, "0.5.16")


def test_a_stack_flag_wins_over_the_overlay_and_false_drops_it() -> None:
    overlay: FlagTable = {"disable_custom_all_reduce": True, "nccl_port": 29500, "log_level": "info"}
    engine = EngineSettings(flags={"disable_custom_all_reduce": False, "log_level": "debug"})
    stack = Stack(name="plain", summary="", model="m", engine=engine)
    assert spell(stack, "0.5.16", overlay=overlay).endswith(
        "--enable-metrics --nccl-port 29500 --log-level debug"
    )


def test_the_memory_cap_lowers_max_total_tokens_and_never_raises_it() -> None:
    stack = Stack(name="plain", summary="", model="m", engine=EngineSettings(max_total_tokens=1000))
    assert "--max-total-tokens 500" in spell(stack, "0.5.16", cap=500)
    assert "--max-total-tokens 1000" in spell(stack, "0.5.16", cap=5000)


def test_a_block_size_is_dflash_only() -> None:
    drafter = Drafter(model="d", algorithm=Algorithm.EAGLE3, block_size=4)
    stack = Stack(name="eagle", summary="", model="m", drafter=drafter)
    assert "--speculative-dflash-block-size" not in spell(stack, "0.5.16")


def test_a_flag_that_repeats_a_setting_is_refused() -> None:
    engine = msgspec.structs.replace(EP4.engine, flags={"tp-size": 4})
    stack = msgspec.structs.replace(EP4, engine=engine)
    with pytest.raises(KitError) as refused:
        spell(stack, "0.5.16")
    assert (refused.value.code, refused.value.exit_code) == ("flag-given-twice", Exit.USAGE)
    assert refused.value.cause == (
        "engine.flags repeats --tp-size, which a setting of stack ep4-dflash already gives"
    )
