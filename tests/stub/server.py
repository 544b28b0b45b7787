"""A stand-in for the engine: replays its real lines, answers as it answers, and fails as it is told to.

Told by environment variables: STUB_FAULT names what goes wrong (``fault_*`` below), STUB_LOG the log to replay,
STUB_KV_TOKENS how many tokens it says to hold, STUB_STEP_S the pause before each line that begins a phase. Standard
library alone, so that its image is small.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LOGS = Path(__file__).parent / "logs"
ANSWER = os.environ.get("STUB_ANSWER", "Yes: the engine is up, and this sentence was made by it.")
MODEL = os.environ.get("STUB_MODEL")
FAULT = os.environ.get("STUB_FAULT", "none")
STEP_S = float(os.environ.get("STUB_STEP_S", "0.02"))
PHASE_LINE = re.compile(r"server_args=|begin|Uvicorn|fired up|allocated")
KV_TOKENS = os.environ.get("STUB_KV_TOKENS")
TOKENS = re.compile(r"^(.*max_total_num_tokens=)\d+")
STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
NOT_OURS = re.compile(
    r'" \d{3}|Decode batch|Prefill batch|SIGTERM|Gracefully|kill_process_tree|Uvicorn running'
)


class State:
    """What the request handlers need to know."""

    ready = False
    stopping = False
    stalled = False
    requests = 0
    tokens = 0
    passes = 0


def say(text: str) -> None:
    """One line, stamped with the time now."""
    print(STAMP.sub(time.strftime("[%Y-%m-%d %H:%M:%S"), text), flush=True)


def stamped(text: str) -> None:
    """One line as the engine's own process writes it."""
    say("[2026-01-01 00:00:00] " + text)


def event(name: str) -> None:
    """Mark the moment of a fault, to the millisecond, for whoever measures how long a verdict takes."""
    print(f"stub-event {name} {time.time():.3f}", flush=True)


def replay(name: str, *, until: str | None = None, since: str | None = None) -> None:
    """Say the lines of a kept log, from the one that holds ``since`` up to the one that holds ``until``."""
    started = since is None
    for line in (LOGS / name).read_text(encoding="utf-8").splitlines():
        started = started or (since is not None and since in line)
        if not started or NOT_OURS.search(line):
            continue
        if until is not None and until in line:
            return
        if PHASE_LINE.search(line):
            time.sleep(STEP_S)
        say(TOKENS.sub(rf"\g<1>{KV_TOKENS}", line) if KV_TOKENS else line)


class Handler(BaseHTTPRequestHandler):
    """The paths of SGLang that kitctl asks for."""

    def do_GET(self) -> None:
        if self.path.startswith("/health"):
            return self._health()
        if self.path.startswith("/v1/models"):
            return self._json({"object": "list", "data": [{"id": served_name(), "max_model_len": 2048}]})
        if self.path.startswith("/metrics"):
            return self._metrics()
        if self.path.startswith(("/server_info", "/get_server_info", "/model_info")):
            return self._json(
                {"version": "0.5.16", "served_model_name": served_name(), "internal_states": [{}]}
            )
        return self._json({"detail": "Not Found"}, status=404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        State.requests += 1
        if FAULT == "broken-answer":
            return self._json({"error": "internal"}, status=500)
        text, tokens = answer_for(body)
        State.tokens += tokens
        State.passes += passes_for(tokens)
        if FAULT == "slow-request" and body.get("max_tokens", 0) > 100:
            time.sleep(4)
        usage = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": tokens + 8}
        meta = {"completion_tokens": tokens, "spec_verify_ct": passes_for(tokens)}
        if self.path.startswith("/generate"):
            return self._json({"text": text, "meta_info": meta})
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "meta_info": meta}
        name = "another-model" if FAULT == "wrong-model" else body.get("model", served_name())
        return self._json({"object": "chat.completion", "model": name, "choices": [choice], "usage": usage})

    def _health(self) -> None:
        if State.stalled:
            time.sleep(3)
            return self._json({}, status=503)
        ok = State.ready and not State.stopping
        return self._json({}, status=200 if ok else 503)

    def _metrics(self) -> None:
        text = (
            f"sglang:generation_tokens_total {State.tokens}\nsglang:spec_verify_calls_total {State.passes}\n"
        )
        self._send(text.encode(), status=200, kind="text/plain")

    def _json(self, body: object, *, status: int = 200) -> None:
        self._send(json.dumps(body).encode(), status=status, kind="application/json")

    def _send(self, raw: bytes, *, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, form: str, *args: object) -> None:
        stamped(
            f'INFO:     {self.client_address[0]}:1 - "{self.requestline}" {args[1] if len(args) > 1 else ""}'
        )


def answer_for(body: dict[str, object]) -> tuple[str, int]:
    """The text and its tokens."""
    texts = {"empty-answer": "", "endless-answer": "so " * 60, "strange-answer": "The moon is a fruit."}
    text = texts.get(FAULT, ANSWER)
    return text, 0 if FAULT == "no-tokens" else max(1, len(text.split()))


def passes_for(tokens: int) -> int:
    """Verify passes: with a broken drafter every pass gives one token, with a weak one two, else four."""
    accepted = {"drafter-broken": 1, "drafter-weak": 2}.get(FAULT, 4)
    return max(1, (tokens - 1) // accepted)


def option(name: str, default: str) -> str:
    """The value of a flag in the engine's own spelling."""
    words = sys.argv
    return words[words.index(name) + 1] if name in words[:-1] else default


def served_name() -> str:
    """The name under which the model is served; a foreign server has its own."""
    if FAULT == "foreign-model":
        return "somebody-elses-model"
    return MODEL or option("--served-model-name", "stub")


def listen() -> ThreadingHTTPServer:
    """Open the port and answer in the background."""
    server = ThreadingHTTPServer(("0.0.0.0", int(option("--port", "30000"))), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stamped(f"INFO:     Uvicorn running on http://0.0.0.0:{option('--port', '30000')} (Press CTRL+C to quit)")
    return server


def stop(signum: int, frame: object) -> None:
    """SIGTERM as SGLang takes it: drain, then end with SIGKILL's exit code."""
    del frame
    State.stopping = True
    stamped(f"SIGTERM received. signum={signum} frame=None. Draining requests and shutting down...")
    for left in {"slow-stop": (2, 1), "never-stops": (3,) * 100}.get(FAULT, ()):
        stamped(
            f"Gracefully exiting... Remaining number of requests {left}. Remaining requests remaining_rids=[]."
        )
        time.sleep(1.5)
    stamped("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
    os._exit(137)


def die(code: int, *, name: str) -> None:
    """End at once with an exit code."""
    event(name)
    sys.stdout.flush()
    os._exit(code)


def load() -> None:
    """A whole load up to ready."""
    replay(os.environ.get("STUB_LOG", "healthy-cpu-stopped.log"), until="fired up")
    listen()
    State.ready = True
    stamped("The server is fired up and ready to roll!")


def after_ready() -> None:
    """Serve until something happens; some faults come only now."""
    delay_s = float(os.environ.get("STUB_DELAY_S", "2"))
    later = LATER.get(FAULT)
    if later is not None:
        time.sleep(delay_s)
        later()
    while True:
        signal.pause()


def rank_killed() -> None:
    """A scheduler is killed: the port stays open for a while, then all ends (measured, SGLang 0.5.16)."""
    event("rank-killed")
    State.stalled = True
    stamped("Subprocess scheduler_1 (pid=77) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
    stamped("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    time.sleep(float(os.environ.get("STUB_LINGER_S", "5")))
    os._exit(137)


def detokenizer_killed() -> None:
    """The detokenizer is killed: the engine waits before it ends itself."""
    event("detokenizer-killed")
    State.stalled = True
    stamped("Subprocess detokenizer (pid=78) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
    time.sleep(float(os.environ.get("STUB_LINGER_S", "12")))
    os._exit(137)


def rank_out_of_memory() -> None:
    """A rank meets the container's memory limit and is killed for it; the rest lives on for a while."""
    program = "x = []\nwhile True: x.append(bytearray(b'1' * (8 << 20)))"
    rank = subprocess.Popen([sys.executable, "-I", "-c", program])
    code = rank.wait()
    event("rank-killed")
    stamped(
        f"Subprocess scheduler_1 (pid=77) crashed with exit code {code}. Triggering SIGQUIT for cleanup..."
    )
    time.sleep(float(os.environ.get("STUB_LINGER_S", "5")))
    os._exit(137)


def scheduler_stalls() -> None:
    """The scheduler stops: health fails, nothing is said."""
    event("stalled")
    State.stalled = True


def dies_while_serving() -> None:
    """A crash under load, as its real lines tell it."""
    event("crash")
    replay("dflash-illegal-access.log", since="Scheduler hit an exception")
    os._exit(137)


def oom_while_serving() -> None:
    """GPU memory runs out in a forward pass."""
    event("oom")
    replay("out-of-memory-while-serving.log", since="Scheduler hit an exception")
    os._exit(137)


def log_flood() -> None:
    """Ten thousand lines at once, then quiet."""
    for number in range(10_000):
        print(f"[rank0]:[W1129 flood {number}] " + "x" * 150)
    sys.stdout.flush()


LATER = {
    "rank-killed": rank_killed,
    "detokenizer-killed": detokenizer_killed,
    "rank-out-of-memory": rank_out_of_memory,
    "scheduler-stalls": scheduler_stalls,
    "dies-while-serving": dies_while_serving,
    "oom-while-serving": oom_while_serving,
    "log-flood": log_flood,
    "exits-quietly": lambda: die(0, name="exit"),
    "killed": lambda: (event("killed"), os.kill(os.getpid(), signal.SIGKILL)),
}


def fail_with_log(name: str, code: int) -> None:
    """Replay a failing load to its end and exit."""
    replay("healthy-cpu-stopped.log", until="Load weight begin")
    event("fatal")
    replay(name, since=os.environ.get("STUB_SINCE"))
    die(code, name="exit")


def compile_kernels(seconds: float) -> None:
    """Say nothing while a program by the name of CUDA's assembler runs."""
    compiler = Path("/tmp/ptxas")
    compiler.symlink_to(sys.executable)
    subprocess.run([compiler, "-I", "-c", f"import time; time.sleep({seconds})"], check=True)


def ladder() -> bool:
    """Whether the flags say that prefill graphs (and for STUB_RUNGS=3 decode graphs) are off by now."""
    words = " ".join(sys.argv)
    wanted = {"1": "prefill", "2": "bs", "3": "decode=disabled|decode disabled|disable-cuda-graph"}
    return re.search(wanted[os.environ.get("STUB_RUNGS", "1")], words) is not None


def silent_hang() -> None:
    """Say nothing more after the weights."""
    event("hang")
    replay("healthy-cpu-stopped.log", until="Load weight end")
    signal.pause()


def compiles() -> None:
    """A compiler works in silence; then it goes on, or hangs."""
    replay("healthy-cpu-stopped.log", until="Load weight end")
    compile_kernels(float(os.environ.get("STUB_COMPILE_S", "12")))
    if os.environ.get("STUB_THEN") == "hang":
        event("hang")
        signal.pause()


def port_taken() -> None:
    """The port is taken: told after the whole load, and then it hangs."""
    replay("healthy-cpu-stopped.log", until="fired up")
    event("fatal")
    replay("B50b.log", since="[Errno 98]")
    signal.pause()


def out_of_host_memory() -> None:
    """Take memory until the kernel ends it."""
    replay("healthy-cpu-stopped.log", until="Load weight end")
    event("oom")
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1 << 20)) * 8)


def chatty_load() -> None:
    """Five seconds of lines before the load goes on."""
    for number in range(250):
        stamped(f"chatter {number} " + "x" * 200)
        time.sleep(0.02)


def never_ready() -> None:
    """Listen and answer 503."""
    replay("healthy-cpu-stopped.log", until="fired up")
    listen()
    signal.pause()


EARLY = {
    "silent-exit": lambda: die(int(os.environ.get("STUB_EXIT", "1")), name="exit"),
    "silent-hang": silent_hang,
    "compiles": compiles,
    "port-taken": port_taken,
    "out-of-host-memory": out_of_host_memory,
    "chatty-load": chatty_load,
    "never-ready": never_ready,
}


def main() -> None:
    """Load, fail or serve."""
    signal.signal(signal.SIGTERM, stop)
    if FAULT.startswith("log:"):
        fail_with_log(FAULT.removeprefix("log:"), int(os.environ.get("STUB_EXIT", "137")))
    if FAULT == "until-remedied" and not ladder():
        fail_with_log("B41.log", 137)
    EARLY.get(FAULT, lambda: None)()
    load()
    after_ready()


if __name__ == "__main__":
    main()
