"""Tokens, times, ends and errors are read from what the server says, in every format that SGLang speaks."""

import json
from pathlib import Path

import pytest
from wire import HEAD, chunk, completion, data, end, event, sent

from kitctl.bench.answers import Record, read_records, records_of
from kitctl.bench.event_log import read_logs
from kitctl.bench.load import ClientHealth, LoadRun

CASES = Path(__file__).parent.parent / "cases" / "bench"


def record(*entries: bytes) -> Record:
    (found,) = read_records(read_logs([b"".join(entries)]))
    return found


def stream(*events: tuple[float, bytes], finish: bool = True) -> Record:
    entries = [sent(0, 0)]
    for number, (at_ms, payload) in enumerate(events):
        entries.append(data(0, at_ms, (HEAD if number == 0 else b"") + chunk(payload)))
    last = events[-1][0] if events else 0
    tail = chunk(event(b"[DONE]")) if finish else b""
    return record(*entries, data(0, last, tail + b"0\r\n\r\n"), end(0, last))


def test_a_failure_does_not_tell_the_key() -> None:
    body = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 22\r\n\r\nbad key: sk-abcdefghij"
    log = b"".join((sent(0, 0), data(0, 5, body), end(0, 5)))
    health = ClientHealth(
        processes=1, cpu_share=0, cpu_s=0, lag_mean_ms=0, lag_p99_ms=0, lag_max_ms=0, reconnects=0
    )
    (found,) = records_of(LoadRun(logs=(log,), go_ns=0, health=health), "sk-abcdefghij")
    assert (found.error, found.detail) == ("http-401", "bad key: ***")


def test_one_token_a_chunk() -> None:
    found = stream(
        (100, completion("a", tokens=1)),
        (110, completion("b", tokens=2)),
        (120, completion("c", tokens=3, finish="length")),
    )
    assert (found.output_tokens, found.prompt_tokens, found.finish) == (3, 10, "length")
    assert (found.ttft_ms, found.tpot_ms, found.e2e_ms) == (100, 10, 120)


def test_four_tokens_a_chunk_are_four_tokens() -> None:
    """The first chunk's tokens are not in the time after it: (last - first) / (n - n_first)."""
    found = stream(*((100 + 40 * step, completion("abcd", tokens=4 * (step + 1))) for step in range(8)))
    assert found.output_tokens == 32
    assert found.tpot_ms == 10
    assert found.steps[0][1] == 4


def test_total_at_the_end_is_spread_over_the_chunks() -> None:
    chunks = [(100 + 40 * step, completion("abcd")) for step in range(8)]
    usage = {"model": "demo", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 32}}
    found = stream(*chunks, (381, event(usage)))
    assert found.output_tokens == 32
    assert found.tpot_ms == 10
    assert found.e2e_ms == 380


def test_token_without_text_counts() -> None:
    """A half-finished character gives a chunk with empty text; its token came nevertheless."""
    found = stream((100, completion("", tokens=1)), (110, completion("ä", tokens=2, finish="length")))
    assert found.ttft_ms == 100
    assert found.tpot_ms == 10


def test_reasoning_counts_as_first_token() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    think = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}
    say = {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"completion_tokens": 2}}
    found = stream((50, event(role)), (100, event(think)), (110, event(say)), (111, event(usage)))
    assert found.ttft_ms == 100
    assert found.text == "yes"


def test_chunks_read_together_are_one_step() -> None:
    both = completion("a", tokens=1) + completion("b", tokens=2)
    found = stream((100, both), (120, completion("c", tokens=4, finish="length")))
    assert found.steps == ((100_000_000, 2.0), (120_000_000, 2.0))
    assert found.tpot_ms == 10


def test_event_cut_in_the_middle_of_a_packet() -> None:
    whole = completion("a", tokens=1) + completion("b", tokens=2, finish="stop") + event(b"[DONE]")
    raw = HEAD + b"".join(chunk(whole[at : at + 11]) for at in range(0, len(whole), 11)) + b"0\r\n\r\n"
    pieces = [data(0, 100 + at / 10, raw[at : at + 13]) for at in range(0, len(raw), 13)]
    found = record(sent(0, 0), *pieces, end(0, 200))
    assert (found.output_tokens, found.finish, found.error) == (2, "stop", None)


def test_early_stop_is_counted_as_sent() -> None:
    found = stream((100, completion("a", tokens=1)), (110, completion("b", tokens=2, finish="stop")))
    assert (found.output_tokens, found.finish) == (2, "stop")


def test_no_usage_is_unknown_not_the_number_of_chunks() -> None:
    found = stream((100, completion("a")), (110, completion("b", finish="stop")))
    assert found.output_tokens is None
    assert found.ttft_ms == 100
    assert found.tpot_ms is None


def test_cached_tokens() -> None:
    found = stream(
        (100, completion("a", tokens=1, prompt_tokens_details={"cached_tokens": 7})),
        (110, completion("b", tokens=2, finish="stop", prompt_tokens_details={"cached_tokens": 7})),
    )
    assert found.cached_tokens == 7


def test_http_error_keeps_its_text() -> None:
    raw = b'HTTP/1.1 503 X\r\nContent-Length: 15\r\n\r\n{"detail":"no"}'
    found = record(sent(0, 0), data(0, 5, raw), end(0, 5))
    assert (found.error, found.detail) == ("http-503", '{"detail":"no"}')


@pytest.mark.parametrize(
    ("why", "kind"), [("timeout: no byte for 5 s", "timeout"), ("connection reset by peer", "connection")]
)
def test_lost_answers(why: str, kind: str) -> None:
    found = record(sent(0, 0), data(0, 100, HEAD + chunk(completion("a", tokens=1))), end(0, 200, why))
    assert (found.error, found.detail, found.ttft_ms) == (kind, why, 100)


def test_error_inside_a_stream() -> None:
    found = stream((100, completion("a", tokens=1)), (110, event({"error": {"message": "out of memory"}})))
    assert (found.error, found.detail) == ("stream-error", "{'message': 'out of memory'}")


def test_stream_that_just_ends_is_incomplete() -> None:
    assert stream((100, completion("a", tokens=1)), finish=False).error == "incomplete"


def test_nonsense_is_a_bad_answer() -> None:
    assert stream((100, b"data: {oops\n\n")).error == "bad-answer"


@pytest.mark.parametrize("tokens", [-3, 10**30])
def test_a_count_that_no_request_can_have_is_a_bad_answer(tokens: int) -> None:
    found = stream((100, completion("a", tokens=tokens)))
    assert (found.error, found.detail) == ("bad-answer", f"its usage tells {tokens} completion tokens")


@pytest.mark.parametrize("tokens", ["7", 1.5, -1])
def test_so_is_one_of_the_engines_own_account(tokens: object) -> None:
    meta = {"prompt_tokens": 3, "completion_tokens": tokens, "finish_reason": {"type": "length"}}
    found = stream((100, event({"text": "a", "meta_info": meta})))
    assert (found.error, found.detail) == ("bad-answer", f"its usage tells {tokens} completion tokens")


def test_answer_in_one_piece() -> None:
    body = json.dumps(
        {
            "model": "demo",
            "choices": [{"text": "x", "finish_reason": "stop"}],
            "usage": {"completion_tokens": 5},
        }
    ).encode()
    raw = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    found = record(sent(0, 0), data(0, 90, raw), end(0, 90))
    assert (found.output_tokens, found.streamed, found.finish, found.error) == (5, False, "stop", None)


def real_stream(name: str) -> Record:
    events = []
    for line in (CASES / name).read_text().splitlines()[1:]:
        at_s, payload = line.split(" ", 1)
        events.append((float(at_s) * 1e3, payload.encode() + b"\n\n"))
    return stream(*events)


def test_real_chat_stream() -> None:
    found = real_stream("chat-stream-ar.txt")
    assert (found.output_tokens, found.prompt_tokens, found.model) == (24, 15, "tiny-qwen3")
    assert found.ttft_ms == pytest.approx(15.2)
    assert found.tpot_ms == pytest.approx((50.9 - 15.2) / 23, rel=0.01)


def test_real_dflash_stream_of_24_tokens_in_4_chunks() -> None:
    found = real_stream("chat-stream-dflash.txt")
    assert (found.output_tokens, len(found.steps), found.finish) == (24, 4, "length")
    assert found.ttft_ms == pytest.approx(20.8)


def test_real_generate_answer() -> None:
    case = json.loads((CASES / "generate-dflash-t1.json").read_text())
    body = json.dumps(case["response"]).encode()
    raw = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    found = record(sent(0, 0), data(0, 281, raw), end(0, 281))
    assert (found.output_tokens, found.prompt_tokens, found.cached_tokens, found.finish) == (
        96,
        20,
        19,
        "length",
    )
    assert found.meta is not None
    assert found.meta["spec_verify_ct"] == 18


def test_log_cut_short_gives_what_it_holds() -> None:
    log = b"".join([sent(0, 0), data(0, 100, HEAD + chunk(completion("a", tokens=1)))])
    (exchange,) = read_logs([log[:-5]])
    assert exchange.pieces == []
    assert exchange.sent_ns == 0


def test_real_completions_stream_with_usage_in_every_chunk() -> None:
    found = real_stream("completions-stream-cpu.txt")
    assert (found.output_tokens, found.prompt_tokens, found.finish, found.error) == (4, 5, "length", None)
    assert [tokens for _, tokens in found.steps] == [1, 1, 1, 1]
    assert found.tpot_ms == pytest.approx(20)
    assert found.e2e_ms == pytest.approx(160)


@pytest.mark.parametrize(
    ("body", "error"), [(b"{}", "bad-answer"), (b"<html>", "bad-answer"), (b'{"text": ""}', None)]
)
def test_a_whole_answer_holds_a_choice(body: bytes, error: str | None) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert record(sent(0, 0), data(0, 1, head + body), end(0, 1)).error == error
