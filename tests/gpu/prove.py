"""Prove on real GPUs what kitctl plans: ``python3 prove.py --models DIR --out DIR --gpus 1|2 [--only NAME ...]``.

Needs a host with NVIDIA GPUs where ``python3 -m sglang.launch_server`` works (the kit's image, or the same release
installed), kitctl importable, and the models of make_models.py. No container engine: each case is planned by kitctl,
rendered with ``--to shell`` and run as that very script. For each case OUT/CASE holds the plan, the engine's log, its
phases, what the server says of itself, counters before and after load, bench and accept results, and how it stopped.
OUT/record.json sums up. The GPUs may be shared with other people: the add-on overlay no-multicast is always on.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from threading import Thread
from typing import Any

HERE = Path(__file__).parent
KIT = HERE.parent.parent
sys.path.insert(0, str(KIT))

from kitctl.bench.bench_serving import bench_serving_argv  # noqa: E402
from kitctl.bench.results import read_results  # noqa: E402
from kitctl.bench.workload import Endpoint, Spec  # noqa: E402
from kitctl.commands.starting import Target, prove_answer  # noqa: E402
from kitctl.edge.failure_book import failure_book  # noqa: E402
from kitctl.watch.start import StartState, Verdict, judge_start, phase_lines, see_end, see_line  # noqa: E402

MODELS = ("dense", "moe", "copy", "random", "badfc", "badids", "kimi", "kimi-copy", "wide", "wide-copy")
DEMO = ("kitctl/demo", "kitctl/demo-drafter")
FIRST_PORT = 30100


class Case:
    """One stack on this host: planned, rendered, launched, watched."""

    def __init__(self, wanted: dict[str, Any], out: Path, env: dict[str, str], port: int) -> None:
        self.wanted, self.name, self.port = wanted, wanted["name"], port
        self.folder = out / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.env = {**env, **wanted.get("environment", {})}
        self.url = f"http://127.0.0.1:{port}"
        self.model = "proof"
        self.facts: dict[str, Any] = {"expects": wanted["expects"]}
        self.process: subprocess.Popen[bytes] | None = None
        self.other: Case | None = None
        self.deadline_s = float("inf")

    def words(self) -> list[str]:
        gpus = ",".join(str(index) for index in range(self.wanted["gpus"]))
        words = [self.wanted["stack"], "--add", "no-multicast", "--port", str(self.port), "--gpus", gpus]
        for setting in self.wanted.get("set", []):
            words += ["--set", setting]
        return words + (["--overlay", self.wanted["overlay"]] if "overlay" in self.wanted else [])

    def plan(self) -> None:
        done = kitctl(["plan", *self.words(), "--json"], self.env)
        (self.folder / "plan.json").write_text(done.stdout)
        plan = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        self.model = plan.get("model_name", self.model)
        self.facts["plan_exit"] = done.returncode
        self.facts["plan_findings"] = [f["code"] for f in plan.get("findings", []) if f["severity"] != "note"]
        self.facts["overlays"] = plan.get("overlays")
        rendered = kitctl(
            ["render", *self.words(), "--to", "shell", "-o", str(self.folder / "shell")], self.env
        )
        self.facts["render_error"] = (
            None if (self.folder / "shell" / "run.sh").is_file() else rendered.stderr[-2000:]
        )

    def launch(self) -> None:
        log = (self.folder / "engine.log").open("wb")
        self.begun_s = time.time()
        self.process = subprocess.Popen(
            ["sh", str(self.folder / "shell" / "run.sh")],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.env,
            start_new_session=True,
        )
        Thread(target=self._note_end, daemon=True).start()
        say(f"{self.name}: launched")

    def _note_end(self) -> None:
        assert self.process is not None
        code = self.process.wait()
        self.facts["exit_code"], self.facts["ended_s"] = code, round(time.time() - self.begun_s, 1)

    def wait(self, limit_s: float) -> bool:
        """Follow the log as ``kitctl up`` does; whether the server answers a real generation."""
        book = failure_book()
        state = StartState(begun_s=self.begun_s, deadline_s=time.time() + limit_s)
        target = Target(container_id="", folder="", url=self.url, model=self.model)
        with (self.folder / "engine.log").open("rb") as log:
            while True:
                ended = self.process is None or self.process.poll() is not None
                for line in iter(log.readline, b""):
                    state = see_line(state, line.decode("utf-8", "replace"), at_s=time.time(), book=book)
                state = see_end(state, None) if ended else state
                verdict = judge_start(state, now_s=time.time())
                answer = prove_answer(target) if verdict is Verdict.ASK else None
                answered = answer is not None and answer.failure is None
                if answered or verdict in (Verdict.CRASHED, Verdict.TOO_LATE):
                    break
                time.sleep(0.2)
        self.facts["phases"] = phase_lines(state, now_s=time.time())
        self.facts["ready_s"] = round(time.time() - self.begun_s, 1) if answered else None
        self.facts["answer"] = answer.text[:200] if answered and answer else None
        say(f"{self.name}: {'ready' if answered else verdict} after {time.time() - self.begun_s:.1f} s")
        return answered

    def measure(self) -> None:
        self.save_smi("nvidia-smi")
        for path in ("/v1/loads", "/model_info", "/metrics"):
            self.save_get(path, "fresh")
        server = json.loads(self.get("/server_info") or "{}")
        kept = [
            "version",
            "max_total_num_tokens",
            "mem_fraction_static",
            "attention_backend",
            "tp_size",
            "ep_size",
        ]
        kept += ["cuda_graph_max_bs", "speculative_algorithm", "max_running_requests", "internal_states"]
        (self.folder / "server_info.json").write_text(json.dumps({k: server.get(k) for k in kept}, indent=1))
        for temperature in (0, 1):
            self.generate(temperature)
        served = ["--url", self.url, "--model", self.model]
        if self.wanted.get("load"):
            result = str(self.folder / "bench.jsonl")
            words = [
                "bench",
                *served,
                "--concurrency",
                "8",
                "--repeats",
                "3",
                "--requests",
                "4",
                "-o",
                result,
            ]
            self.run_tool("bench", [*words, *self.wanted.get("load_words", [])])
        if self.wanted.get("accept"):
            for temperature in (0, 1):
                words = ["accept", *served, "--temperature", str(temperature), "--json"]
                self.run_tool(f"accept-T{temperature}", [*words, *self.wanted.get("accept_words", [])])
        if self.other is not None and self.other.facts.get("ready_s"):
            words = ["accept", *served, "--parity", self.other.url, "--json"]
            words += ["--prompts", "8", "--output-tokens", "96", "--concurrency", "1"]
            self.run_tool("parity", [*words, *self.wanted.get("accept_words", [])])
        if self.wanted.get("second"):
            self.second_client()
        self.save_get("/metrics", "after")

    def second_client(self) -> None:
        """The same load by bench and by the engine's own client, in turn; both count ramp and tail in.

        For a server alone on its GPU whose steps take the GPU's time: a tiny model's speed is the CPU's, which
        changed by a quarter from second to second, and its requests are so short that a client's own pauses count.
        """
        wanted = self.wanted["second"]
        load = {
            "input_tokens": 128,
            "output_tokens": wanted["tokens"],
            "requests_per_stream": wanted["requests"],
        }
        spec = Spec(model=self.model, endpoint=Endpoint.GENERATE, dataset="random", **load)
        words = ["bench", "--url", self.url, "--model", self.model, "--endpoint", "generate"]
        words += ["--repeats", "1", "--concurrency", str(wanted["streams"]), "--ramp-s", "0"]
        words += ["--input-tokens", "128", "--output-tokens", str(wanted["tokens"])]
        words += ["--requests", str(wanted["requests"])]
        turns = self.facts["second"] = []
        for seed in range(1, wanted["turns"] + 1):
            if self.deadline_s - time.time() < 120:
                say(f"{self.name}: no time left for turn {seed} of the two clients")
                return
            result = self.folder / f"second-kitctl-{seed}.jsonl"
            self.run_tool(f"second-kitctl-{seed}", [*words, "--seed", str(seed), "-o", str(result)])
            arguments = bench_serving_argv(spec, concurrency=wanted["streams"], port=self.port, seed=seed)
            theirs = self.engine_client(arguments)
            if theirs is None or not result.is_file():
                say(f"{self.name}: turn {seed} of the two clients is not whole")
                continue
            ((point,),) = (one.points for one in read_results(str(result), result.read_text()))
            turns.append({"kitctl": point.whole_run_output_tokens_per_s, "engine_client": theirs})
            say(f"{self.name}: output tok/s {turns[-1]}")

    def engine_client(self, arguments: tuple[str, ...]) -> float | None:
        """Output tokens a second that sglang.benchmark.serving measured; its last lines are kept."""
        output = self.folder / "engine-client.jsonl"
        said = self.folder / "engine-client.txt"
        argv = [sys.executable, "-m", "sglang.benchmark.serving", *arguments, "--output-file", str(output)]
        before = output.read_text() if output.is_file() else ""
        left_s = min(120.0, self.deadline_s - time.time())
        try:
            done = subprocess.run(
                argv, env=self.env, capture_output=True, text=True, timeout=left_s, check=False
            )
        except subprocess.TimeoutExpired:
            said.write_text(f"no end within {left_s:.0f} s")
            return None
        said.write_text(done.stdout[-4000:] + done.stderr[-4000:])
        lines = output.read_text().removeprefix(before).splitlines() if output.is_file() else []
        return float(json.loads(lines[-1])["output_throughput"]) if lines else None

    def run_tool(self, name: str, words: list[str]) -> None:
        begun_s = time.time()
        left_s = min(180.0, self.deadline_s - begun_s)
        if left_s < 5:
            say(f"{self.name}: no time left for {name}")
            return
        done = kitctl(words, self.env, timeout_s=left_s)
        (self.folder / f"{name}.out.txt").write_text(done.stdout)
        (self.folder / f"{name}.err.txt").write_text(done.stderr)
        self.facts[f"{name}_exit"], self.facts[f"{name}_s"] = done.returncode, round(time.time() - begun_s, 1)
        say(f"{self.name}: {name} exit {done.returncode} after {time.time() - begun_s:.1f} s")

    def generate(self, temperature: int) -> None:
        sampling = {"temperature": temperature, "max_new_tokens": 96, "ignore_eos": True}
        body = json.dumps({"input_ids": [401, 402, 403, 404], "sampling_params": sampling}).encode()
        (self.folder / f"generate-T{temperature}.json").write_text(self.get("/generate", body) or "")

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        begun_s = time.time()
        os.kill(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(30)
            self.facts["stop_s"] = round(time.time() - begun_s, 1)
        except subprocess.TimeoutExpired:
            self.facts["stop_s"] = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.save_smi("nvidia-smi.stopped")

    def diagnose(self) -> None:
        done = kitctl(["diagnose", str(self.folder / "engine.log"), "--json"], self.env)
        (self.folder / "diagnose.json").write_text(done.stdout)
        found = json.loads(done.stdout)["diagnoses"] if done.stdout.startswith("{") else []
        self.facts["diagnoses"] = [diagnosis["code"] for diagnosis in found]

    def get(self, path: str, body: bytes | None = None) -> str | None:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return str(reply.read().decode("utf-8", "replace"))
        except OSError as broken:
            self.facts.setdefault("http_failures", []).append(f"{path}: {broken}")
            return None

    def save_get(self, path: str, tag: str) -> None:
        (self.folder / f"{path.strip('/').replace('/', '_')}.{tag}.txt").write_text(self.get(path) or "")

    def save_smi(self, name: str) -> None:
        query = [
            "nvidia-smi",
            "--query-compute-apps=gpu_uuid,pid,used_memory",
            "--format=csv,noheader,nounits",
        ]
        gpus = ["nvidia-smi", "--query-gpu=index,memory.used,memory.total", "--format=csv,noheader,nounits"]
        text = "".join(
            subprocess.run(q, capture_output=True, text=True, check=False).stdout for q in (query, gpus)
        )
        (self.folder / f"{name}.csv").write_text(text)


def kitctl(words: list[str], env: dict[str, str], timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run kitctl as a user does."""
    argv = [sys.executable, "-m", "kitctl", *words]
    try:
        return subprocess.run(
            argv, env=env, cwd=KIT, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(argv, 124, str(late.stdout or ""), f"no end within {timeout_s} s")


def say(line: str) -> None:
    print(f"[{time.time() - BEGUN_S:6.1f}] {line}", flush=True)


def prepare(models: Path, out: Path) -> dict[str, str]:
    """An environment of the proof's own: configuration with its stacks and models, state, caches."""
    config = out / "config" / "kitctl"
    for kind in ("stacks", "parts"):
        (config / kind).mkdir(parents=True, exist_ok=True)
        for file in (HERE / kind).glob("*.yaml"):
            (config / kind / file.name).write_text(file.read_text())
    env = {**os.environ, "XDG_CONFIG_HOME": str(out / "config"), "XDG_STATE_HOME": str(out / "state")}
    path = [str(KIT), os.environ.get("PYTHONPATH", "")]
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, path)), "KITCTL_KIT": str(KIT)}
    # Offline: where no hub can be reached, the engine's client would try it for a minute at each start.
    env |= {"KITCTL_STORE": str(models / "store"), "HF_HUB_OFFLINE": "1"}
    done = kitctl(["models", "pull", *DEMO, "--no-image-room"], env)
    if done.returncode:
        say(f"models pull: exit {done.returncode} {done.stderr[-600:]}")
    for name in MODELS:
        if (models / name).is_dir():
            words = ["models", "add", str(models / name), "--name", f"proof/{name}"]
            done = kitctl(words, env, timeout_s=180)  # hashes 15 GB of the wide one
            if done.returncode:
                say(f"models add {name}: exit {done.returncode} {done.stderr[-600:]}")
    return env


def run_group(cases: list[Case], *, deadline_s: float) -> None:
    """Launch side by side (each imports for 40 s before it touches a GPU), measure in order, stop all."""
    for case in cases:
        case.launch()
    try:
        for case in cases:
            case.other = next(
                (other for other in cases if other.name == case.wanted.get("parity_with")), None
            )
            case.deadline_s = deadline_s
            if case.wait(max(5.0, deadline_s - time.time())):
                case.measure()
            case.diagnose()
    finally:
        for case in cases:
            case.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpus", type=int, choices=(1, 2), required=True)
    parser.add_argument("--only", nargs="*", help="names of cases")
    parser.add_argument("--port-offset", type=int, default=0, help="for two proofs side by side")
    parser.add_argument("--limit", type=float, default=600, help="seconds for all of it")
    args = parser.parse_args()
    env = prepare(args.models, args.out)
    (args.out / "doctor.json").write_text(kitctl(["doctor", "--json"], env).stdout)
    (args.out / "topo.json").write_text(kitctl(["topo", "--json"], env).stdout)
    wanted = [
        case for case in tomllib.loads((HERE / "cases.toml").read_text())["case"] if case["gpus"] == args.gpus
    ]
    wanted = [case for case in wanted if not args.only or case["name"] in args.only]
    first = FIRST_PORT + args.port_offset
    cases = [Case(case, args.out, env, first + 50 * number) for number, case in enumerate(wanted)]
    for case in cases:
        case.plan()
        say(f"{case.name}: plan exit {case.facts['plan_exit']} {case.facts['plan_findings']}")
    write_record(cases, args)
    runnable = [case for case in cases if case.facts["render_error"] is None]
    for group in sorted({case.wanted["group"] for case in runnable}):
        members = [case for case in runnable if case.wanted["group"] == group]
        if time.time() < BEGUN_S + args.limit - 60:
            run_group(members, deadline_s=BEGUN_S + args.limit - 15)
        write_record(cases, args)
    say("done")


def write_record(cases: list[Case], args: argparse.Namespace) -> None:
    """Sum up what is known by now: after the plans and after every group, so that a run cut off keeps its figures."""
    record = {"schema": "kitctl.gpu-proof/1", "seconds": round(time.time() - BEGUN_S, 1)}
    record |= {"laws": json.loads((args.models / "laws.json").read_text())}
    record |= {"cases": {case.name: case.facts for case in cases}}
    (args.out / "record.json").write_text(json.dumps(record, indent=1))


BEGUN_S = time.time()
if __name__ == "__main__":
    main()
