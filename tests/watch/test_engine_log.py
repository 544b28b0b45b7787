"""The engine's own lines tell how far a load has come, in every release's wording."""

from pathlib import Path

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.watch.engine_log import (
    Bar,
    Capacity,
    Capture,
    KvPool,
    LoadProgress,
    Phase,
    RankLoad,
    advance,
    known_capacity,
    phase_durations,
)

LOGS = Path(__file__).parent.parent / "cases" / "logs"
FATAL = failure_book().fatal


def follow(text: str, progress: LoadProgress | None = None) -> LoadProgress:
    told = progress or LoadProgress()
    for raw in text.split("\n"):
        told = advance(told, raw, fatal=FATAL)
    return told


def test_a_real_dflash_load_on_two_gpus_is_followed_to_ready() -> None:
    told = follow((LOGS / "healthy-kimi-dflash.log").read_text())
    assert told.phase is Phase.READY
    assert told.first_fatal is None
    assert phase_durations(told) == {
        Phase.STARTED: 16.0,
        Phase.DISTRIBUTED: 1.0,
        Phase.WEIGHTS: 4.0,
        Phase.DRAFTER: 0.0,
        Phase.KV_CACHE: 1.0,
        Phase.GRAPHS: 13.0,
        Phase.WARM_UP: 3.0,
    }
    assert told.loads[0] == RankLoad(
        rank="TP0 EP0",
        is_drafter=False,
        begun_s=told.loads[0].begun_s,
        elapsed_s=3.6,
        model_type="KimiK25ForConditionalGeneration",
        memory_gb=2.93,
        available_gb=135.36,
    )
    assert [(load.rank, load.is_drafter) for load in told.loads] == [
        ("TP0 EP0", False), ("TP1 EP1", False), ("TP0 EP0", True), ("TP1 EP1", True)
    ]  # fmt: skip
    assert told.pools[0] == KvPool(rank="TP0 EP0", is_drafter=False, tokens=7898138, size_gb=33.9)
    assert told.pools[2] == KvPool(rank="TP1 EP1", is_drafter=True, tokens=7898138, size_gb=30.12)
    assert told.captures[1] == Capture(rank="TP0 EP0", name="target prefill", elapsed_s=10.17, memory_gb=1.17)
    assert told.capacity == Capacity(
        max_total_tokens=7898138,
        max_running_requests=48,
        context_length=262144,
        available_gpu_gb=62.67,
    )
    assert told.drafter == "DFlashDraftModel"


def test_the_cpu_engine_is_ready_before_it_listens_and_then_stops_without_a_failure() -> None:
    told = follow((LOGS / "healthy-cpu-stopped.log").read_text())
    assert (told.phase, told.listening, told.first_fatal) == (Phase.READY, True, None)


def test_an_exception_glued_to_a_progress_bar_is_fatal_at_once() -> None:
    glued = (
        "\rMulti-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]"
        "[2026-11-29 12:45:55 TP3] Scheduler hit an exception: Traceback (most recent call last):"
    )
    told = follow(glued)
    assert told.first_fatal is not None
    assert told.first_fatal.text == "Scheduler hit an exception: Traceback (most recent call last):"
    assert told.first_fatal.rank == "TP3"
    assert told.shards == Bar(done=0, total=1)


def test_carriage_returns_colours_and_compose_names_are_taken_off() -> None:
    raw = (
        "\x1b[36mengine-1  | \x1b[0m\rLoading safetensors checkpoint shards:  48% Completed | 31/64 "
        "[01:02<01:05,  2.01s/it]\rLoading safetensors checkpoint shards:  50% Completed | 32/64 "
        "[01:04<01:03,  2.00s/it]"
    )
    assert follow(raw).shards == Bar(done=32, total=64)


def test_docker_times_are_used_where_a_line_has_none() -> None:
    told = follow(
        "2026-11-29T13:41:02.500000000Z [2026-11-29 13:41:02] server_args=ServerArgs(model_path='/m')\n"
        "2026-11-29T13:41:04.750000000Z INFO:     Uvicorn running on http://127.0.0.1:30001\n"
    )
    assert told.last_stamp_s is not None
    assert phase_durations(told) == {Phase.STARTED: 2.75, Phase.WARM_UP: 0.0}


def test_the_callers_clock_gives_finer_durations() -> None:
    told = advance(LoadProgress(), "[2026-11-29 13:41:02] server_args=ServerArgs(", fatal=FATAL, at_s=10.25)
    told = advance(told, "[2026-11-29 13:41:02] Init torch distributed begin.", fatal=FATAL, at_s=12.0)
    assert phase_durations(told, now_s=13.5) == {Phase.STARTED: 1.75, Phase.DISTRIBUTED: 1.5}


@pytest.mark.parametrize(
    ("begin", "end", "name"),
    [
        (
            "[2026-05-08 10:00:00 TP0] Capture cuda graph begin. This can take up to several minutes. "
            "avail mem=6.99 GB",
            "[2026-05-08 10:00:09 TP0] Capture cuda graph end. Time elapsed: 9.12 s. mem usage=1.20 GB. "
            "avail mem=5.79 GB.",
            "all",
        ),
        (
            "[2026-05-08 10:00:00 TP0] Capture draft cuda graph begin. This can take up to several minutes. "
            "avail mem=6.99 GB",
            "[2026-05-08 10:00:09 TP0] Capture draft cuda graph end. Time elapsed: 9.12 s. mem usage=1.20 GB. "
            "avail mem=5.79 GB.",
            "draft",
        ),
        (
            "[2026-11-08 10:00:00 TP0] Capture target verify CUDA graph begin. backend=full, bs=[1, 2]",
            "[2026-11-08 10:00:09 TP0] Capture target verify CUDA graph end. elapsed=9.12 s, mem usage=1.20 GB, "
            "avail mem=5.79 GB.",
            "target verify",
        ),
    ],
    ids=["0.5.11", "0.5.11-draft", "0.5.15"],
)
def test_graph_capture_is_read_in_each_wording(begin: str, end: str, name: str) -> None:
    told = follow(
        begin + "\nCapturing batches (bs=16 avail_mem=6.00 GB):  50%|█████     | 4/8 [00:03<00:03,  1.1it/s]"
    )
    assert (told.phase, told.graph_batches) == (Phase.GRAPHS, Bar(done=4, total=8))
    told = follow(end, told)
    assert told.captures == (Capture(rank="TP0", name=name, elapsed_s=9.12, memory_gb=1.2),)


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("[2026-11-29 13:49:12] ", None),
        ("[2026-11-29 13:49:12 TP3] ", "TP3"),
        ("[2026-11-29 13:49:12 DP1 PP0 TP3 EP1] ", "DP1 PP0 TP3 EP1"),
        ("[2026-11-29 13:49:12.481 TP7] ", "TP7"),
        ("[2026-11-29 13:49:12,481 PP1] ", "PP1"),
        ("[TP1] ", "TP1"),
    ],
)
def test_each_part_of_the_prefix_is_optional(prefix: str, rank: str | None) -> None:
    told = follow(prefix + "Load weight begin. avail mem=94.10 GB")
    assert [(load.rank, load.available_gb) for load in told.loads] == [(rank, 94.1)]


def test_older_releases_load_the_drafter_after_the_targets_pool() -> None:
    told = follow(
        "[2026-05-08 10:00:00 TP0] Load weight begin. avail mem=94.10 GB\n"
        "[2026-05-08 10:01:00 TP0] Load weight end. elapsed=60.10 s, type=KimiK25ForConditionalGeneration, "
        "dtype=torch.bfloat16, avail mem=21.10 GB, mem usage=73.00 GB.\n"
        "[2026-05-08 10:01:01 TP0] KV Cache is allocated. #tokens: 65536, KV size: 4.50 GB\n"
        "[2026-05-08 10:01:02 TP0] Load weight begin. avail mem=15.10 GB\n"
        "[2026-05-08 10:01:04 TP0] Load weight end. elapsed=2.10 s, type=DFlashDraftModel, "
        "dtype=torch.bfloat16, avail mem=13.70 GB, mem usage=1.40 GB.\n"
        "[2026-05-08 10:01:04 TP0] KV Cache is allocated. #tokens: 65536, K size: 0.20 GB, V size: 0.20 GB\n"
    )
    assert [pool.is_drafter for pool in told.pools] == [False, True]
    assert [load.is_drafter for load in told.loads] == [False, True]
    assert phase_durations(told) == {Phase.WEIGHTS: 61.0, Phase.KV_CACHE: 1.0, Phase.DRAFTER: 2.0}


def test_a_log_without_a_line_has_no_durations() -> None:
    assert phase_durations(LoadProgress(), now_s=5.0) == {}


@pytest.mark.parametrize("read", [0, 20, None])
def test_the_capacity_is_found_however_much_of_the_log_was_read(read: int | None) -> None:
    """On a busy host the answer may come before the line that tells it was read."""
    folder = Path(__file__).parent.parent / "cases" / "gpu_proof" / "wide"
    log = (folder / "wide.log").read_text().splitlines()
    progress = LoadProgress()
    for line in log[:read]:
        progress = advance(progress, line, fatal=FATAL)
    found = known_capacity(progress, iter(log), fatal=FATAL)
    assert found is not None and found.max_total_tokens == 100000


def test_a_log_without_it_tells_no_capacity() -> None:
    assert known_capacity(LoadProgress(), iter(()), fatal=FATAL) is None
