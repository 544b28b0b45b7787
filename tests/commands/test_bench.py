"""kitctl bench against a server of exactly known rate: right numbers, and every known way to be fooled is refused."""

import contextlib
import csv
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rateserver import Behaviour, Running, rate_server
from recorded import ready_run

from kitctl.bench.html_report import page
from kitctl.bench.points import Point
from kitctl.bench.results import Head, ResultFile, read_results
from kitctl.bench.tables import comparison_text, csv_lines
from kitctl.bench.text_report import point_lines

TOKENS = 30


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def bench(url: str, *more: str, exit_code: int = 0) -> list[dict[str, Any]]:
    argv = [sys.executable, "-m", "kitctl", "bench", "--url", url, "--json", "-q"]
    short = ("--model", "demo", "--concurrency", "4", "--repeats", "1", "--output-tokens", str(TOKENS))
    done = subprocess.run([*argv, *short, *more], capture_output=True, text=True, timeout=120, check=False)
    points = [json.loads(line) for line in done.stdout.splitlines()]
    if not disturbed(points):
        reasons = [point.get("invalid_reasons") for point in points]
        assert done.returncode == exit_code, (reasons, done.stderr)
    return points


def disturbed(points: list[dict[str, Any]]) -> bool:
    """Whether a busy machine made the client late and nothing else is wrong: kitctl then says so."""
    reasons = [reason for point in points for reason in point.get("invalid_reasons", ())]
    return (
        bool(reasons)
        and all(reason.startswith(("client-late", "schedule-late")) for reason in reasons)
        and not calm()
    )


def decode_ms(behaviour: Behaviour, tokens: int = TOKENS) -> float:
    """From the first chunk to the last, which may be a short one."""
    return (-(-tokens // behaviour.tokens_per_chunk) - 1) * behaviour.step_ms


def true_rate(behaviour: Behaviour, *, streams: int, tokens: int = TOKENS) -> float:
    return streams * tokens / (behaviour.ttft_ms + decode_ms(behaviour, tokens)) * 1e3


def calm() -> bool:
    """Whether KITCTL_CALM says that the machine is idle: only then are wall-clock figures held to their targets."""
    return os.environ.get("KITCTL_CALM") == "1"


def close_to(value: float, share: float) -> Any:
    """Exact on a calm machine; on a busy one the planted server itself is late."""
    return pytest.approx(value, rel=share if calm() else 0.25)


@pytest.mark.parametrize("tokens_per_chunk", [1, 4])
@pytest.mark.parametrize("usage", ["continuous", "final"])
def test_known_rate(tokens_per_chunk: int, usage: str) -> None:
    behaviour = Behaviour(ttft_ms=100, step_ms=20, tokens_per_chunk=tokens_per_chunk, usage=usage)
    with rate_server(behaviour) as server:
        points = bench(server.url, "--concurrency", "1,4")
    assert [point["concurrency"] for point in points] == [1, 4]
    for point in points:
        assert point["output_tokens_per_s"] == close_to(
            true_rate(behaviour, streams=point["concurrency"]), 0.005
        )
        middle = "mean" if calm() else "p50"
        assert point["ttft_ms"][middle] == close_to(100, 0.03)
        assert point["tpot_ms"][middle] == close_to(decode_ms(behaviour) / (TOKENS - tokens_per_chunk), 0.02)
        assert point["chunk_gap_ms"]["p50"] == close_to(20, 0.02)
        assert point["output_tokens_mean"] == TOKENS
        assert (point["errors"], point["server_counter_difference"]) == (0, 0)
        assert set(point["ttft_ms"]) >= {"mean", "p50", "p90", "p99"}


@pytest.mark.parametrize(
    ("files", "load", "code"),
    [(40, ("--concurrency", "64"), "too-few-files"), (100, ("--rate", "400", "--requests", "1"), None)],
)
def test_fewer_open_files_than_streams(files: int, load: tuple[str, ...], code: str | None) -> None:
    """A closed loop is refused; an open one, which opens as it goes, tells what it could not send."""
    script = f'ulimit -n {files}; exec {sys.executable} -m kitctl bench --model demo --json -q "$@"'
    with rate_server(Behaviour(ttft_ms=600, step_ms=20)) as server:
        short = ("--url", server.url, "--repeats", "1", "--output-tokens", "8")
        argv = ("sh", "-c", script, "sh", *short, *load)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    if code is None:
        assert done.returncode == 9, done.stderr
        assert "(open-files x" in done.stdout
    else:
        assert (done.returncode, json.loads(done.stdout)["code"]) == (3, code)


def test_early_stop_counts_what_was_sent() -> None:
    behaviour = Behaviour(ttft_ms=100, step_ms=20, stop_at=10)
    with rate_server(behaviour) as server:
        (point,) = bench(server.url)
    assert point["output_tokens_per_s"] == close_to(true_rate(behaviour, streams=4, tokens=10), 0.005)
    assert point["stopped_early"] == point["requests"] == 20
    assert point["stops"] == {"stop": 20}


def test_one_stall_is_seen_in_the_gaps() -> None:
    with rate_server(Behaviour(ttft_ms=50, step_ms=10, stall_every=5, stall_ms=400)) as server:
        (point,) = bench(server.url)
    assert point["chunk_gap_ms"]["max"] > 400
    assert point["chunk_gap_ms"]["p50"] == close_to(10, 0.05)


def test_acceptance_from_the_counters_difference() -> None:
    with rate_server(Behaviour(ttft_ms=50, step_ms=10, speculative=True, tokens_per_chunk=5)) as server:
        (point,) = bench(server.url)
    assert point["accept_length"] == 5


@pytest.mark.parametrize(
    ("planted", "code"),
    [
        ({"error_every": 10}, "errors"),
        ({"cut_every": 10}, "errors"),
        ({"stream_error_every": 10}, "errors"),
        ({"cached_share": 0.5}, "cached-tokens"),
        ({"cached_share": 0.5, "tells_cached": False}, "cached-tokens"),
        ({"answers_as": "other"}, "wrong-model"),
        ({"model": "other"}, "wrong-model"),
        ({"zero_tokens": True}, "zero-tokens"),
        ({"usage": "none"}, "no-usage"),
        ({"metrics_factor": 1.05}, "server-counters"),
        ({"error_every": 1}, "errors"),
    ],
    ids=str,
)
def test_trap_makes_the_point_invalid(planted: dict[str, Any], code: str) -> None:
    with rate_server(Behaviour(ttft_ms=30, step_ms=3, **planted)) as server:
        (point,) = bench(server.url, exit_code=9)
    assert point["valid"] is False
    assert code in [reason.split(":")[0] for reason in point["invalid_reasons"]]


def test_silent_requests_time_out_and_are_errors() -> None:
    with rate_server(Behaviour(ttft_ms=30, step_ms=3, silent_every=12)) as server:
        (point,) = bench(server.url, "--timeout-s", "1", exit_code=9)
    assert set(point["error_kinds"]) == {"timeout"}


def test_hopeless_points_are_measured_once() -> None:
    with rate_server(Behaviour(ttft_ms=30, step_ms=3, usage="none")) as server:
        (point,) = bench(server.url, "--repeats", "3", exit_code=9)
    assert (point["repeats"], point["output_tokens_per_s"], point["tpot_ms"]) == (1, None, None)
    assert point["ttft_ms"]["p50"] == close_to(30, 0.1)


def test_a_silent_server_is_asked_for_one_load_only() -> None:
    argv = [
        sys.executable,
        "-m",
        "kitctl",
        "bench",
        "--model",
        "demo",
        "--concurrency",
        "8,9",
        "--timeout-s",
        "0.5",
    ]
    with rate_server(Behaviour(silent_every=1)) as server:
        done = subprocess.run(
            [*argv, "--url", server.url, "--json"], capture_output=True, text=True, timeout=120, check=False
        )
    (point,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, point["concurrency"], point["repeats"]) == (9, 8, 1)
    assert (point["first_error"], point["notes"]) == ("timeout: no byte for 0.5 s", [])
    assert "not measured, since no request was answered: C=9\n" in done.stderr


def test_what_the_server_says_of_a_failure_is_told() -> None:
    with rate_server(Behaviour(ttft_ms=30, step_ms=3, error_every=1)) as server:
        (point,) = bench(server.url, exit_code=9)
    assert point["first_error"] == '{"message": "planted"}'
    assert point["invalid_reasons"][0].endswith("failed (http-500 x20); the first: " + point["first_error"])
    assert point["notes"] == []


@pytest.mark.parametrize("status_line", [b"HTTP/1.0 200 OK", b"HTTP/1.1 200 OK"])
def test_answers_that_end_with_the_connection(status_line: bytes) -> None:
    """As Python's http.server sends them: no length, no chunks, a content type of its own choice."""
    with plain_server(status_line) as url:
        (point,) = bench(url, "--requests", "50")  # they end at once: few would find all streams busy
    assert (point["errors"], point["completed"], point["output_tokens_mean"]) == (0, 200, 3)


@contextlib.contextmanager
def plain_server(status_line: bytes) -> Iterator[str]:
    events = [
        {"model": "demo", "choices": [{"index": 0, "text": " w", "finish_reason": reason}], "usage": usage}
        for reason, usage in (
            (None, None),
            (None, None),
            ("length", {"prompt_tokens": 9, "completion_tokens": 3}),
        )
    ]
    body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            first = self.rfile.readline()
            while (line := self.rfile.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            if first.startswith(b"POST /v1/completions"):
                self.wfile.write(status_line + b"\r\nContent-Type: text/plain\r\n\r\n" + body)
            else:
                self.wfile.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    "odd",
    [
        {"close": True},
        {"keep_idle_requests": 2},
        {"accept_delay_ms": 300.0},
        {"completions": False},
        {"takes_ids": False},
        {"metrics": False},
        {"lists_models": False},
    ],
    ids=str,
)
def test_odd_servers_are_measured_all_the_same(odd: dict[str, Any]) -> None:
    """Closing after each answer, slow accept, chat only, no token ids, no metrics, no model list."""
    behaviour = Behaviour(ttft_ms=50, step_ms=10, **odd)
    with rate_server(behaviour) as server:
        (point,) = bench(server.url)
    assert point["errors"] == 0
    assert point["completed"] == 20
    assert point["ttft_ms"]["p50"] == close_to(50, 0.1)


def test_open_loop() -> None:
    with rate_server(Behaviour(ttft_ms=50, step_ms=5)) as server:
        done = bench(server.url, "--rate", "20", "--requests", "1", "--concurrency", "1")
    assert [(point["concurrency"], point["request_rate"]) for point in done] == [(1, None), (None, 20.0)]
    assert done[1]["requests"] == 200
    assert done[1]["requests_per_s"] == pytest.approx(20, rel=0.25)


def test_kit_prompts_end_where_the_model_ends_them() -> None:
    with rate_server(Behaviour(ttft_ms=50, step_ms=5, stop_at=12)) as server:
        (point,) = bench(server.url, "--dataset", "kit")
    assert point["output_tokens_mean"] == 12
    assert point["stopped_early"] == 0


def test_goodput() -> None:
    with rate_server(Behaviour(ttft_ms=50, step_ms=5, stall_every=4, stall_ms=900)) as server:
        (point,) = bench(server.url, "--slo-e2e-ms", "700")
    assert 0.5 < point["goodput_share"] < 0.95
    found = msgspec.convert(point, Point)
    told = f"goodput {found.goodput_requests_per_s:.2f} req/s ({found.goodput_share:.0%} of the requests)"
    result = ResultFile(head=Head(label="a"), points=(found,))
    assert any(told in line for line in point_lines([found]))
    assert any(told in line for line in comparison_text([result], (), (), as_markdown=False))
    head, row = list(csv.reader(csv_lines([result])))
    assert float(row[head.index("goodput_share")]) == found.goodput_share
    assert repr(found.goodput_requests_per_s) in page([result], css="", made_by="kitctl")


def stop_after(lines: int, argv: list[str], how: signal.Signals) -> None:
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines -= " tok/s, " in line
            if not lines:
                process.send_signal(how)
                break
        process.stderr.read()
        assert process.wait() == (130 if how is signal.SIGINT else -how)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_resume_goes_on_where_it_was_stopped(tmp_path: Path, how: signal.Signals) -> None:
    out = tmp_path / "results.jsonl"
    short = [
        "--model",
        "demo",
        "--concurrency",
        "2,4",
        "--repeats",
        "2",
        "--output-tokens",
        "20",
        "-o",
        str(out),
    ]
    with rate_server(Behaviour(ttft_ms=30, step_ms=3)) as server:
        stop_after(2, [sys.executable, "-m", "kitctl", "bench", "--url", server.url, *short], how)
        kept = out.read_text().splitlines()
        assert len(kept) in (3, 4)
        assert [point.repeats for point in read_results(str(out), out.read_text())[0].points][:1] == [1]
        points = bench(server.url, *short, "--resume")
    lines = out.read_text().splitlines()
    assert lines[: len(kept)] == kept
    schemas = [json.loads(line)["schema"].split("/")[0] for line in lines]
    assert schemas == ["kitctl.bench.run", *["kitctl.bench.repeat"] * 4, *["kitctl.bench.point"] * 2]
    assert [(point["concurrency"], point["repeats"]) for point in points] == [(2, 2), (4, 2)]


def test_resume_measures_again_what_a_dying_server_spoilt(tmp_path: Path) -> None:
    """The repeat in which it died stays in the file and counts no more; a sweep that is whole gains no line."""
    out = tmp_path / "results.jsonl"
    with rate_server(Behaviour(ttft_ms=30, step_ms=3)) as server:
        bench(server.url, "--concurrency", "2", "-o", str(out))
        head, repeat, _ = out.read_text().splitlines()
        spoilt = json.dumps({**json.loads(repeat), "errors": 5, "error_kinds": {"connection": 5}})
        out.write_text(f"{head}\n{spoilt}\n")
        (point,) = bench(server.url, "--concurrency", "2", "-o", str(out), "--resume")
        assert (point["valid"], point["errors"], point["repeats"]) == (True, 0, 1)
        lines = out.read_text().splitlines()
        assert (lines[1], len(lines)) == (spoilt, 4)
        bench(server.url, "--concurrency", "2", "-o", str(out), "--resume")
    assert out.read_text().splitlines() == lines


def test_resume_with_another_load_tells_what_stays(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    argv = [
        sys.executable,
        "-m",
        "kitctl",
        "bench",
        "--model",
        "demo",
        "--repeats",
        "1",
        "--output-tokens",
        "20",
    ]
    argv += ["-o", str(out)]
    with rate_server(Behaviour(ttft_ms=30, step_ms=3)) as server:
        said = [
            subprocess.run(
                [*argv, "--url", server.url, *more], capture_output=True, text=True, timeout=120, check=False
            )
            for more in (
                ["--concurrency", "2"],
                ["--concurrency", "4", "--resume"],
                ["--concurrency", "2", "--output-tokens", "21", "--resume"],
            )
        ]
    assert (
        f"going on with {out}: 0 of 1 repeats are done; repeats of other loads, not asked for now, stay in it: 1"
        in said[1].stderr
    )
    assert said[2].returncode == 2 and "other-sweep" in said[2].stderr
    assert [point.concurrency for point in read_results(str(out), out.read_text())[0].points] == [2, 4]


def test_a_torn_last_line_is_cut_before_a_sweep_goes_on(tmp_path: Path) -> None:
    """Whether the interrupt fell into a repeat or a point, inside a letter, or just before a newline."""
    whole = tmp_path / "whole.jsonl"
    short = ("--concurrency", "1,2", "--label", "zu langsam \u00fc")
    with rate_server(Behaviour(ttft_ms=10, step_ms=1)) as server:
        bench(server.url, *short, "-o", str(whole))
        data = whole.read_bytes()
        ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
        for number, cut in enumerate((ends[0] - 1, ends[0] + 20, ends[1] - 1, ends[2] - 30, ends[3] + 1)):
            torn = tmp_path / f"{number}.jsonl"
            torn.write_bytes(data[:cut])
            points = bench(server.url, *short, "-o", str(torn), "--resume")
            assert [point["concurrency"] for point in points] == [1, 2]
            assert all(json.loads(line) for line in torn.read_text().split("\n")[:-1])
            assert len(read_results(str(torn), torn.read_text())[0].repeats) == 2


def test_a_file_that_another_bench_writes_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    with rate_server(Behaviour(ttft_ms=30, step_ms=3)) as server:
        argv = [
            sys.executable,
            "-m",
            "kitctl",
            "bench",
            "--url",
            server.url,
            "--model",
            "demo",
            "-o",
            str(out),
        ]
        argv += ["--output-tokens", "20", "--concurrency", "2", "--repeats", "1000"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as first:
            assert first.stderr is not None
            next(line for line in first.stderr if " tok/s, " in line)
            for more in ([], ["--resume"]):
                done = subprocess.run(
                    [*argv, *more, "--json"], capture_output=True, text=True, timeout=60, check=False
                )
                refused = json.loads(done.stdout)
                assert (done.returncode, refused["code"]) == (3, "result-busy")
                assert refused["evidence"][0] in (
                    f"process {first.pid}",
                    "the kernel does not tell which process it is",
                )
            first.kill()
            first.stderr.read()
        (freed,) = failure_of(server, "-o", str(out))
    assert freed["code"] == "result-exists"
    assert list(tmp_path.glob("results*")) == [out]


@pytest.mark.parametrize("named", [True, False])
def test_nothing_to_resume(tmp_path: Path, named: bool) -> None:
    out = tmp_path / "results.jsonl"
    with rate_server() as server:
        (failure,) = failure_of(server, "--resume", *(("-o", str(out)) if named else ()))
    assert failure["code"] == "nothing-to-resume"
    assert not out.exists()


def test_no_sweep_goes_on_from_figures_that_nothing_measured(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    short = ("--repeats", "1", "--output-tokens", "20", "-o", str(out))
    with rate_server(Behaviour(ttft_ms=10, step_ms=1)) as server:
        bench(server.url, *short)
        spoilt = out.read_text().replace('"window_s":', '"window_s":-')
        out.write_text(spoilt)
        (failure,) = failure_of(server, *short, "--resume")
    assert failure["code"] == "bad-result"
    assert failure["cause"].startswith(f"{out} is not a result file: line 2: window_s is -")
    assert out.read_text() == spoilt


def test_no_sweep_goes_on_behind_a_second_opinion(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    short = ("--repeats", "1", "--output-tokens", "20", "-o", str(out))
    with rate_server(Behaviour(ttft_ms=10, step_ms=1)) as server:
        bench(server.url, *short)
        text = out.read_text()
        out.write_text(text + json.dumps({"schema": "kitctl.bench.run/1", "label": "other"}) + "\n")
        (failure,) = failure_of(server, *short, "--resume")
    assert failure["code"] == "sweep-closed"


def test_a_folder_as_result_file_is_refused(tmp_path: Path) -> None:
    with rate_server() as server:
        (failure,) = failure_of(server, "-o", str(tmp_path))
    assert (failure["code"], failure["remedy"]) == ("output-is-folder", f"name a file in it: {tmp_path}/NAME")


def test_an_unreachable_server_leaves_no_empty_file(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    argv = [
        sys.executable,
        "-m",
        "kitctl",
        "bench",
        "--url",
        "http://127.0.0.1:9",
        "--model",
        "m",
        "-o",
        str(out),
    ]
    assert subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 10
    assert not out.exists()


def test_results_are_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    out.write_text("mine\n")
    with rate_server() as server:
        (failure,) = failure_of(server, "-o", str(out))
    assert failure["code"] == "result-exists"
    assert out.read_text() == "mine\n"


def failure_of(server: Running, *more: str) -> Iterator[dict[str, Any]]:
    argv = [sys.executable, "-m", "kitctl", "bench", "--url", server.url, "--json", "--model", "demo", *more]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    yield json.loads(done.stdout)


@pytest.mark.parametrize("named", [["--model", "demo"], []])
def test_nothing_answers(named: list[str]) -> None:
    argv = [
        sys.executable,
        "-m",
        "kitctl",
        "bench",
        "--url",
        "http://127.0.0.1:9",
        *named,
        "--json",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 10
    failure = json.loads(done.stdout)
    assert failure["code"] == "server-unreachable"
    assert failure["cause"] == "nothing answers at 127.0.0.1:9"


class RefusesTls(socketserver.BaseRequestHandler):
    """Answers in plain text whatever comes, as HTTP servers do with what is no request."""

    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("named", [["--model", "demo"], []])
def test_a_server_without_tls(named: list[str]) -> None:
    argv = [sys.executable, "-m", "kitctl", "bench", *named, "--json", "--url"]
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), RefusesTls) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://127.0.0.1:{server.server_address[1]}"
        done = subprocess.run([*argv, url], capture_output=True, text=True, timeout=60, check=False)
        server.shutdown()
    failure = json.loads(done.stdout)
    assert (done.returncode, failure["code"]) == (10, "tls-failed")
    assert "WRONG_VERSION_NUMBER" in failure["evidence"][0]


def test_stack_that_is_up_is_found_by_its_record(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    argv = [sys.executable, "-m", "kitctl", "bench", "demo-stack", "--json", "-q", "--concurrency", "2"]
    with rate_server(Behaviour(ttft_ms=30, step_ms=3)) as server:
        ready_run(server.url)
        done = subprocess.run(
            [*argv, "--repeats", "1", "--output-tokens", "20", "-o", str(out)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert json.loads(done.stdout)["completed"] == 10
    head = json.loads(out.read_text().splitlines()[0])
    assert (head["label"], head["run_record"]["id"]) == ("demo-stack", "20260101T000000Z-demo")
    assert json.loads(out.read_text().splitlines()[1])["run"] == "20260101T000000Z-demo"


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["no-stack"], "not-up", 3),
        ([], "no-server", 2),
        (["demo-stack", "--url", "http://h:1"], "no-server", 2),
        (["--url", "http://127.0.0.1:9", "--with", "sglang", "--model", "m"], "no-second-opinion", 2),
    ],
)
def test_unclear_servers_are_refused(words: list[str], code: str, exit_code: int) -> None:
    argv = [sys.executable, "-m", "kitctl", "bench", "--json", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, json.loads(done.stdout)["code"]) == (exit_code, code)


def test_no_secret_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITCTL_API_KEY", "sk-very-secret")
    out = tmp_path / "results.jsonl"
    with rate_server(Behaviour(ttft_ms=30, step_ms=3)) as server:
        bench(server.url, "-o", str(out))
    assert "sk-very-secret" not in out.read_text()


@pytest.mark.parametrize("text", ["", "a b", "sk-1\r\nX-Other: 1"])
@pytest.mark.parametrize("place", ["file", "variable"])
def test_a_key_that_is_none_is_refused_and_not_told(
    place: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would break the header of every request. An empty variable is none at all."""
    words = []
    if place == "file":
        (tmp_path / "key").write_text(text)
        words = ["--api-key-file", str(tmp_path / "key")]
    elif text:
        monkeypatch.setenv("KITCTL_API_KEY", text)
    with rate_server() as server:
        if place == "variable" and not text:
            assert len(bench(server.url)) == 1
            return
        (failure,) = failure_of(server, *words)
        assert server.truth() == []
    assert failure["code"] == "bad-api-key"
    assert "sk-1" not in json.dumps(failure)


def test_a_label_of_two_lines_is_refused() -> None:
    argv = [sys.executable, "-m", "kitctl", "bench", "--url", "http://127.0.0.1:9", "--label", "a\nb"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "'a\\nb' is no line of printable characters" in done.stderr) == (2, True)
