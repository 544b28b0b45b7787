"""A server that starts, logs, answers and dies as SGLang does, in a fraction of a second.

Behaviour comes from the environment, since the arguments are the engine's own:
STUB_MODE   serve | crash (leave with STUB_CODE) | hang (log nothing more) | never-ready (health says 503)
STUB_AT     the phase of start.log at which crash and hang happen (started, weights, kv_cache, ready ...)
STUB_CODE   exit code of a crash
STUB_STEP_S seconds before each log line
STUB_LAST   a line that is logged just before the crash or hang
STUB_ANSWER_S seconds before each answer but the first
STUB_DEAF   1: SIGTERM is ignored
STUB_RANK   the only rank of several hosts that crashes or hangs (all do, when it is not set)
Over several hosts (--nnodes) the ranks meet at --dist-init-addr before anything is loaded; ranks above 0 answer health
alone, rank 0 lives on when another dies.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODE = os.environ.get("STUB_MODE", "serve")
AT = os.environ.get("STUB_AT", "")
STEP_S = float(os.environ.get("STUB_STEP_S", "0.02"))
ANSWER_S = float(os.environ.get("STUB_ANSWER_S", "0"))
SENTENCE = "Yes: the engine is up, and this sentence was made by it."


def flag(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def api_key():
    path = flag("--config")
    return Path(path).read_text().partition(":")[2].strip() if path else None


def log(text):
    print(time.strftime("[%Y-%m-%d %H:%M:%S] ", time.gmtime()) + text, flush=True)


def misbehave():
    if os.environ.get("STUB_RANK", flag("--node-rank")) != flag("--node-rank"):
        return
    last = os.environ.get("STUB_LAST")
    if last:
        log(last)
    if MODE == "crash":
        os._exit(int(os.environ.get("STUB_CODE", "1")))
    while MODE == "hang":
        time.sleep(1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def reply(self, code, body, kind="application/json"):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def is_let_in(self):
        return KEY is None or self.headers.get("Authorization") == f"Bearer {KEY}"

    def do_GET(self):
        if self.path.startswith("/health"):
            self.reply(503 if MODE == "never-ready" else 200, {})
        elif int(flag("--node-rank", "0")):
            self.reply(404, {"detail": "Not Found"})
        elif self.path == "/v1/models" and self.is_let_in():
            model = {
                "id": MODEL,
                "object": "model",
                "created": 0,
                "owned_by": "sglang",
                "max_model_len": 2048,
            }
            self.reply(200, {"object": "list", "data": [model]})
        else:
            self.reply(404 if self.is_let_in() else 401, {"error": "no"})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_let_in():
            self.reply(401, {"error": "Unauthorized"})
            return
        if ASKED and ANSWER_S:
            log(f"asked once more, answered after {ANSWER_S} s")
            time.sleep(ANSWER_S)
        ASKED.append(asked)
        usage = {"prompt_tokens": 9, "completion_tokens": 11, "total_tokens": 20}
        head = {"id": "stub", "created": 0, "model": asked["model"]}
        message = {"role": "assistant", "content": SENTENCE}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.reply(200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})


def stop(signum, frame):
    log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    os._exit(0)


def meet():
    """Rank 0 waits for the others at the meeting point, the others for rank 0; connections stay open."""
    nodes, rank = int(flag("--nnodes", "1")), int(flag("--node-rank", "0"))
    if nodes == 1:
        return
    host, _, port = flag("--dist-init-addr").rpartition(":")
    if rank == 0:
        listener = socket.create_server((host, int(port)))
        KEPT.extend(listener.accept() for _ in range(nodes - 1))
        return
    while True:
        try:
            KEPT.append(socket.create_connection((host, int(port)), timeout=2))
            return
        except OSError:
            time.sleep(0.2)


KEPT = []
ASKED = []
MODEL, KEY = flag("--served-model-name"), api_key()
signal.signal(signal.SIGTERM, signal.SIG_IGN if os.environ.get("STUB_DEAF") else stop)
for raw in (Path(__file__).parent / "start.log").read_text().splitlines()[1:]:
    phase, _, text = raw.partition(": ")
    is_phase = phase in ("started", "distributed", "weights", "kv_cache", "ready")
    time.sleep(STEP_S)
    if is_phase and phase == "ready":
        server = ThreadingHTTPServer((flag("--host"), int(flag("--port"))), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    if phase == "distributed":
        meet()
    log(text if is_phase else raw)
    if is_phase and phase == AT:
        misbehave()
while True:
    time.sleep(3600)
