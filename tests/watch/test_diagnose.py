"""Each known failure is named from its sample, first cause first, and no benign line is ever blamed."""

import json
from pathlib import Path

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.kit.failures import Weight
from kitctl.watch.diagnose import Diagnosis, diagnose, diagnose_silence, diagnosis_lines
from kitctl.watch.engine_log import Phase

LOGS = Path(__file__).parent.parent / "cases" / "logs"
BOOK = failure_book()
RECORDS = [failure.record for failure in BOOK.failures]
HEALTHY = [*sorted(path.name for path in LOGS.glob("healthy-*.log")), "B19.log"]


def codes_of(text: str, **ending: object) -> list[str]:
    return [found.code for found in diagnose(text, BOOK, **ending)]  # type: ignore[arg-type]


@pytest.mark.parametrize("record", RECORDS, ids=[f"{r.code}-{r.sample}" for r in RECORDS])
def test_record_matches_its_own_sample_and_no_other_record_does(record) -> None:  # type: ignore[no-untyped-def]
    assert codes_of((LOGS / record.sample).read_text()) == [record.code]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_has_no_diagnosis(name: str) -> None:
    assert codes_of((LOGS / name).read_text()) == []


def test_every_sample_belongs_to_a_record_or_is_healthy() -> None:
    used = {record.sample for record in RECORDS} | set(HEALTHY)
    spare = {path.name for path in LOGS.glob("*.log")} - used
    assert all(codes_of((LOGS / name).read_text()) for name in spare), spare


@pytest.mark.parametrize("record", RECORDS, ids=[f"{r.code}-{r.sample}" for r in RECORDS])
def test_every_record_says_what_to_do_and_where_it_was_seen(record) -> None:  # type: ignore[no-untyped-def]
    assert record.cause and record.remedy and record.source
    assert not record.cause.endswith(".")


def test_yields_to_names_known_codes() -> None:
    codes = {record.code for record in RECORDS}
    assert {code for record in RECORDS for code in record.yields_to} - codes == set()


def test_a_whole_diagnosis_of_a_drafter_for_another_target() -> None:
    (found,) = diagnose((LOGS / "drafter-does-not-fit-target.log").read_text(), BOOK)
    assert (found.code, found.severity, found.rank, found.line) == (
        "drafter-does-not-fit-target",
        Weight.CAUSE,
        None,
        56,
    )
    assert found.cause == "the drafter was made for another target model"
    assert found.evidence[0].startswith("ValueError: DFLASH fc.weight shape mismatch.")
    assert "kitctl models verify" in found.remedy


def test_the_compilers_first_error_is_quoted_not_the_ninja_line() -> None:
    (found,) = diagnose((LOGS / "B22.log").read_text(), BOOK)
    assert found.evidence == ("fatal error: curand_kernel.h: No such file or directory",)
    assert "curand_kernel.h" in found.cause


def test_what_other_ranks_say_after_the_first_cause_is_left_out() -> None:
    text = (
        "[2026-11-20 09:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
        "[2026-11-20 09:00:01 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer\n"
        "[2026-11-20 09:00:01 TP5] Scheduler hit an exception: Traceback (most recent call last):\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "[2026-11-20 09:00:02] Subprocess scheduler_0 (pid=9) crashed with exit code -9. Triggering SIGQUIT\n"
    )
    (found,) = diagnose(text, BOOK)
    assert (found.code, found.rank) == ("cuda-kernel-fault", "TP3")


def test_a_cause_outranks_a_consequence_that_was_written_first() -> None:
    text = (
        "[2026-11-20 09:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
        "[2026-11-20 09:00:01 TP2] Scheduler hit an exception: Traceback (most recent call last):\n"
        "CUDA error (_deps/repo-flashmla-src/csrc/smxx/get_mla_metadata.cu:93): no kernel image is available for "
        "execution on the device\n"
    )
    assert codes_of(text) == ["image-lacks-gpu-arch"]


def test_an_unrecorded_failure_is_called_unknown_with_its_likeliest_lines() -> None:
    text = (
        "[2026-11-20 09:00:00] Ignore import error when loading sglang.srt.models.x: No module named 'helion'\n"
        "[2026-11-20 09:00:01 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/new.py", line 3, in run\n'
        "FrobnicationError: the flux is reversed\n"
        "[2026-11-20 09:00:02] Received sigquit from a child process. It usually means the child failed.\n"
    )
    (found,) = diagnose(text, BOOK)
    assert found.code == "unknown"
    assert found.evidence == (
        "Scheduler hit an exception: Traceback (most recent call last):",
        "FrobnicationError: the flux is reversed",
    )


@pytest.mark.parametrize(
    ("ending", "codes"),
    [
        ({"exit_code": 137, "oom_killed": True}, ["host-oom-killer"]),
        ({"exit_code": 137, "oom_killed": False}, ["unknown"]),
        ({"exit_code": 0}, ["unknown"]),
        ({"restart_count": 7}, ["unknown"]),
        ({}, []),
        ({"restart_count": 0}, []),
    ],
)
def test_the_containers_end_counts_where_the_log_is_silent(
    ending: dict[str, object], codes: list[str]
) -> None:
    assert codes_of("[2026-11-20 09:00:00] server_args=ServerArgs(model_path='/m')\n", **ending) == codes


def test_a_server_that_was_told_to_stop_did_not_fail_though_it_exits_with_137() -> None:
    text = (LOGS / "healthy-dflash-stopped.log").read_text()
    assert codes_of(text, exit_code=137, oom_killed=False) == []


def test_unhandled_system_error_is_not_shm_when_shm_is_large() -> None:
    text = (LOGS / "shm-too-small-bare.log").read_text()
    assert codes_of(text) == ["shm-too-small"]
    assert codes_of(text, shm_bytes=32 << 30) == ["unknown"]


def test_a_stall_that_ended_is_no_diagnosis() -> None:
    text = (LOGS / "engine-stalled.log").read_text()
    assert codes_of(text) == ["engine-stalled"]
    later = '[2026-11-29 12:49:10] INFO:     127.0.0.1:54434 - "GET /health HTTP/1.1" 200 OK\n'
    assert codes_of(text + later) == []


def test_a_few_rejected_drafts_among_many_accepted_are_no_diagnosis() -> None:
    line = "[2026-11-19 15:25:25] Decode batch, #running-req: 1, accept len: {}, accept rate: 0.9, cuda graph: True"
    good = "\n".join([line.format("1.00")] * 3 + [line.format("5.40")] * 9)
    assert codes_of(good) == []


def wrap(text: str, how: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if how == "compose":
        return "\n".join(f"\x1b[36mengine-1  | \x1b[0m{line}" for line in lines)
    if how == "docker-times":
        return "\n".join(f"2026-11-29T13:41:02.123456789Z {line}" for line in lines)
    if how == "journal":
        return "\n".join(f"Nov 29 13:41:02 gpu1 kitctl-engine[812]: {line}" for line in lines)
    if how == "journal-iso":
        return "\n".join(f"2026-11-29T13:41:02+0000 gpu1 kitctl-engine[812]: {line}" for line in lines)
    if how == "json-file":
        return "\n".join(
            json.dumps({"log": line + "\n", "stream": "stderr"}, separators=(",", ":")) for line in lines
        )
    if how == "torchrun":
        return "\n".join(line if line.startswith("[") else f"[rank3]: {line}" for line in lines)
    if how == "crlf":
        return "\r\n".join(lines)
    bar = "\rCapturing batches (bs=8 avail_mem=6.00 GB):  50%|█████     | 4/8 [00:03<00:03,  1.1it/s]"
    return "\n".join(f"{bar}{line}" for line in lines)


@pytest.mark.parametrize(
    "how", ["compose", "docker-times", "journal", "journal-iso", "json-file", "torchrun", "crlf", "glued"]
)
@pytest.mark.parametrize("record", RECORDS, ids=[f"{r.code}-{r.sample}" for r in RECORDS])
def test_no_wrapping_hides_a_failure(record, how: str) -> None:  # type: ignore[no-untyped-def]
    benign = (LOGS / "B19.log").read_text().replace("The server is fired up and ready to roll!", "")
    text = wrap(benign + (LOGS / record.sample).read_text(), how)
    assert codes_of(text) == [record.code]


def test_text_for_a_person_shows_cause_evidence_remedy_and_ladder() -> None:
    lines = diagnosis_lines(
        [found for found in diagnose((LOGS / "B17b.log").read_text(), BOOK) if isinstance(found, Diagnosis)]
    )
    assert lines == [
        "CAUSE nccl-buffers-oom-lower-mem-fraction: NCCL found no GPU memory left for its own buffers",
        "      seen: NCCL error: Failed to CUDA calloc 10485760 bytes",
        "      do:   lower engine.mem_fraction_static by 0.02, and keep a NCCL_GRAPH_FILE away",
        "      or 1: engine.mem_fraction_static -0.02 (NCCL's buffers lie outside the fraction that the engine "
        "takes for itself)",
    ]


@pytest.mark.parametrize("phase", list(Phase))
def test_a_standstill_in_each_phase_has_a_remedy(phase: Phase) -> None:
    found = diagnose_silence("load-stalled", "stalled in phase x", phase=phase, book=BOOK)
    assert (found.code, found.severity, found.cause) == ("load-stalled", "unknown", "stalled in phase x")
    assert found.remedy
