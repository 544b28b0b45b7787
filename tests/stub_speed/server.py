"""An engine whose speed is planted: it starts, logs and streams as SGLang does, as fast as its environment says.

STUB_TOKEN_MS  milliseconds a token of one stream
STUB_CROWD     how much slower each further stream makes all of them (0.1: two streams run at 1/1.1)
STUB_SURFACE   {"--flag": [best, weight]}: a token takes (1 + weight * log2(value / best) ** 2) times as long
STUB_CRASH     a kept log that is replayed before it leaves with code 137
STUB_DIES_AT   it leaves with code 137 when this many requests are running
STUB_ACCEPT    tokens a verify step, told in meta_info and the counters; without it there is no drafter
"""

import json
import math
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
SENTENCE = "Yes: the engine is up, and this sentence was made by it."
ACCEPT = float(os.environ.get("STUB_ACCEPT", "0"))


def flag(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def token_s() -> float:
    surface = json.loads(os.environ.get("STUB_SURFACE", "{}"))
    slower = 1.0
    for name, (best, weight) in surface.items():
        slower += weight * math.log2(float(flag(name, str(best))) / best) ** 2
    return float(os.environ.get("STUB_TOKEN_MS", "2")) * slower / 1e3


MODEL, TOKEN_S = flag("--served-model-name", "demo"), token_s()
CROWD = float(os.environ.get("STUB_CROWD", "0"))


class Counts:
    lock = threading.Lock()
    running = 0
    tokens = 0
    steps = 0


def log(text: str) -> None:
    print(time.strftime("[%Y-%m-%d %H:%M:%S] ", time.gmtime()) + text, flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: object) -> None:
        pass

    def reply(self, body: object, code: int = 200, kind: str = "application/json") -> None:
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self) -> None:
        if self.path.startswith("/health"):
            self.reply({})
        elif self.path == "/v1/models":
            self.reply({"object": "list", "data": [{"id": MODEL, "max_model_len": 2048}]})
        elif self.path == "/metrics":
            lines = [f"sglang:generation_tokens_total {Counts.tokens}"]
            lines += [f"sglang:spec_verify_calls_total {Counts.steps}"] if ACCEPT else []
            self.reply("\n".join(lines) + "\n", kind="text/plain")
        else:
            self.reply({}, 404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path.startswith("/flush_cache"):
            self.reply({})
            return
        with Counts.lock:
            Counts.running += 1
        try:
            if Counts.running >= int(os.environ.get("STUB_DIES_AT", "1000000")):
                replay("dflash-illegal-access.log", since="Scheduler hit an exception")
                os._exit(137)
            self.generate(asked)
        finally:
            with Counts.lock:
                Counts.running -= 1

    def generate(self, asked: dict) -> None:
        sampling = asked.get("sampling_params") or {}
        wanted = int(asked.get("max_tokens") or sampling.get("max_new_tokens") or 16)
        is_fixed = asked.get("ignore_eos") or sampling.get("ignore_eos")
        count = wanted if is_fixed else min(wanted, 12)
        steps = max(1, round(count / ACCEPT)) if ACCEPT else 0
        if asked.get("stream"):
            self.stream(asked, count)
        else:
            time.sleep(count * TOKEN_S)
            self.whole(asked, count, steps)
        with Counts.lock:
            Counts.tokens += count
            Counts.steps += steps

    def whole(self, asked: dict, count: int, steps: int) -> None:
        words = SENTENCE.split()
        ids = list(range(count))
        top = [[[-0.1, i, None], [-3.0, i + 1, None]] for i in ids]
        meta = {"completion_tokens": count, "prompt_tokens": 8, "output_top_logprobs": top}
        meta["finish_reason"] = {"type": "stop"}
        if steps:
            taken = count - steps
            meta |= {
                "spec_verify_ct": steps,
                "spec_num_correct_drafts": taken,
                "spec_num_proposed_drafts": 7 * steps,
            }
        usage = {"prompt_tokens": 8, "completion_tokens": count, "total_tokens": count + 8}
        if self.path.startswith("/generate"):
            self.reply({"text": SENTENCE, "output_ids": ids, "meta_info": meta})
            return
        message = {"role": "assistant", "content": " ".join(words)}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "stop",
            "meta_info": meta if steps else None,
        }
        self.reply({"id": "s", "created": 0, "object": "chat.completion", "model": asked["model"],
                    "choices": [choice], "usage": usage})  # fmt: skip

    def stream(self, asked: dict, count: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        is_chat = "chat" in self.path
        begun = time.monotonic()
        for number in range(1, count + 1):
            pause = TOKEN_S * (1 + CROWD * max(0, Counts.running - 1))
            begun += pause
            time.sleep(max(0.0, begun - time.monotonic()))
            text = {"delta": {"content": "so "}} if is_chat else {"text": "so "}
            last = number == count
            ended = ("length" if asked.get("ignore_eos") else "stop") if last else None
            choice = {"index": 0, **text, "finish_reason": ended}
            usage = {"prompt_tokens": 8, "completion_tokens": number, "total_tokens": number + 8}
            self.chunk({"id": "s", "model": asked["model"], "choices": [choice], "usage": usage})
        self.send("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, body: dict) -> None:
        self.send(f"data: {json.dumps(body)}\n\n")

    def send(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def replay(name: str, since: str | None = None) -> None:
    text = (HERE / name).read_text()
    print(text[text.index(since) if since else 0 :], flush=True)


def stop(signum: int, frame: object) -> None:
    log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    for raw in (HERE / "start.log").read_text().splitlines()[1:]:
        phase, _, text = raw.partition(": ")
        is_phase = phase in ("started", "distributed", "weights", "kv_cache", "ready")
        time.sleep(0.02)
        if os.environ.get("STUB_CRASH") and phase == "kv_cache":
            replay(os.environ["STUB_CRASH"])
            os._exit(137)
        if is_phase and phase == "ready":
            server = Server(("0.0.0.0", int(flag("--port", "30000"))), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        log(text if is_phase else raw)
    while True:
        signal.pause()


main()
