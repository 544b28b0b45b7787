"""The load client's clock agrees with what the server truly did, for many streams and over TLS."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rateserver import Behaviour, rate_server

from kitctl.bench.answers import Record, read_records
from kitctl.bench.event_log import read_logs
from kitctl.bench.load import Load, split_load
from kitctl.bench.workload import http_request
from kitctl.edge.load_client import run_load, target_of
from kitctl.errors import Exit, KitError

BODY = {
    "model": "demo",
    "prompt": list(range(1000, 1064)),
    "max_tokens": 60,
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}


def drive(
    url: str, *, streams: int, ramp_s: float, rounds: int = 2, ca_file: str | None = None
) -> list[Record]:
    target = target_of(url, ca_file=ca_file)
    starts = tuple(ramp_s * number / streams for number in range(streams))
    requests = (http_request(target, "/v1/completions", BODY),) * (streams * rounds)
    run = run_load(target, Load(requests=requests, streams=streams, starts_s=starts), timeout_s=30)
    assert run.health.processes == max(1, -(-streams // 512))
    return list(read_records(read_logs(run.logs)))


def calm() -> bool:
    """Whether KITCTL_CALM says that a core is free. Otherwise the server reads late, which its stamps cannot know."""
    return os.environ.get("KITCTL_CALM") == "1"


@pytest.mark.parametrize(
    ("streams", "ramp_s"),
    [(1, 0.0), (64, 1.0), (64, 0.0), (256, 1.0), (512, 1.0), (512, 0.0), (600, 1.0)],
)
def test_time_to_first_token_is_the_servers(streams: int, ramp_s: float) -> None:
    """Compared with the server's own stamps."""
    with rate_server(Behaviour(ttft_ms=300, step_ms=33.3), processes=2) as server:
        records = drive(server.url, streams=streams, ramp_s=ramp_s)
        truth = server.truth()
    assert [record.error for record in records] == [None] * (2 * streams)
    assert sum(record.output_tokens or 0 for record in records) == 2 * streams * 60
    assert len(truth) == 2 * streams
    true_ms = statistics.mean((first - arrived) / 1e6 for arrived, first, _, _ in truth)
    seen_ms = statistics.mean(record.ttft_ms or 0.0 for record in records)
    assert seen_ms >= true_ms * 0.97 - 3
    if calm():
        assert seen_ms == pytest.approx(true_ms, rel=0.03 if ramp_s else 0.06, abs=3)
    true_span = max(last for *_, last, _ in truth) - min(arrived for arrived, *_ in truth)
    seen_span = max(r.steps[-1][0] for r in records) - min(r.sent_ns for r in records)
    assert seen_span == pytest.approx(true_span, rel=0.005)


def test_tls(tmp_path: Path) -> None:
    pem = tmp_path / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    pem.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    how = Behaviour(ttft_ms=50, step_ms=5, keep_idle_requests=1)
    with rate_server(how, tls=str(pem)) as server:
        records = drive(server.url, streams=4, ramp_s=0.0, rounds=3, ca_file=str(tmp_path / "cert.pem"))
        with pytest.raises(KitError, match=r"the certificate of 127.0.0.1:[0-9]+ is not trusted") as failed:
            drive(server.url, streams=1, ramp_s=0.0)
        assert (failed.value.code, failed.value.exit_code) == ("tls-failed", Exit.UNREACHABLE)
    assert [(record.error, record.output_tokens) for record in records] == [(None, 60)] * 12


def test_requests_are_dealt_to_processes_without_loss() -> None:
    load = Load(requests=(b"",) * 2500, streams=1030, starts_s=tuple(map(float, range(1030))))
    shares = split_load(load)
    assert len(shares) == 3
    assert sorted(number for share in shares for number in share.numbers) == list(range(2500))
    assert sum(share.streams for share in shares) == 1030
    assert [share.first_stream for share in shares] == [0, 344, 687]
    assert sorted(start for share in shares for start in share.starts_s) == list(map(float, range(1030)))


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "http://x:abc"])
def test_bad_address(url: str) -> None:
    with pytest.raises(KitError) as failed:
        target_of(url)
    assert (failed.value.code, failed.value.exit_code) == ("bad-url", Exit.USAGE)


@pytest.mark.parametrize("end", ["", "/", "/v1/", "/v1/chat/completions", "/v1/completions", "/generate"])
def test_address_with_prefix(end: str) -> None:
    target = target_of(f"https://host/llm{end}")
    assert (target.host, target.port, target.tls, target.path) == ("host", 443, True, "/llm")


def test_a_server_without_tls() -> None:
    with rate_server() as server, pytest.raises(KitError, match="answers, but not with TLS") as failed:
        drive(server.url.replace("http:", "https:"), streams=1, ramp_s=0.0)
    assert (failed.value.code, failed.value.exit_code) == ("tls-failed", Exit.UNREACHABLE)


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_a_file_without_authorities_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KitError) as refused:
        target_of("https://host", ca_file=str(path))
    assert (refused.value.code, refused.value.exit_code) == ("bad-ca-file", Exit.USAGE)


def test_an_ipv6_address_is_told_in_brackets() -> None:
    with pytest.raises(KitError, match=r"nothing answers at \[::1\]:9$"):
        drive("http://[::1]:9", streams=1, ramp_s=0.0)


def test_killed_command_leaves_no_client_and_no_files(tmp_path: Path) -> None:
    script = (
        "from kitctl.bench.load import Load\n"
        "from kitctl.bench.workload import http_request\n"
        "from kitctl.edge.load_client import run_load, target_of\n"
        "import sys\n"
        "target = target_of(sys.argv[1])\n"
        "body = {'prompt': 'x', 'max_tokens': 100000, 'stream': True}\n"
        "load = Load(requests=(http_request(target, '/v1/completions', body),), streams=1, starts_s=(0.0,))\n"
        "run_load(target, load, timeout_s=30, progress=lambda done, of: print('on', flush=True))\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with rate_server(Behaviour(ttft_ms=10, step_ms=20)) as server:
        argv = [sys.executable, "-c", script, server.url]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"on\n"
            assert len(list(tmp_path.iterdir())) == 1
            process.kill()
        deadline = time.monotonic() + 20
        while list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://[::1", "bad-url"),
        ("http://[zz]:1", "bad-url"),
        ("http://a..b:1", "bad-url"),
        ("http://host:99999", "bad-url"),
        ("ftp://host", "bad-url"),
        ("http://", "bad-url"),
        ("http://host:8000/v1?key=pa55", "bad-url"),
        ("http://host:8000#pa55", "bad-url"),
        ("http://user:pa55@[::1", "bad-url"),
        ("http://user:pa55@host:99999", "bad-url"),
        ("http://user:pa55@host:8000/v1", "url-credentials"),
        ("user:pa55@host", "url-credentials"),
        ("https://user:p@pa55@host", "url-credentials"),
        ("https://pa55@host", "url-credentials"),
    ],
)
def test_a_wrong_address_is_refused_and_no_password_is_told(url: str, code: str) -> None:
    with pytest.raises(KitError) as refused:
        target_of(url)
    error = refused.value
    assert (error.code, error.exit_code) == (code, Exit.USAGE)
    assert "pa55" not in " ".join((error.cause, error.remedy, *error.evidence))
