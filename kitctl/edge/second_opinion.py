"""Run the engine's own benchmark client in a container of the engine's own image, beside the engine."""

from __future__ import annotations

from kitctl.edge.process import run_process
from kitctl.errors import Exit, KitError

OUTPUT_FILE = "/tmp/result.jsonl"
# The client imports the package datasets for sets that are not asked for here; a rehearsal's image lacks it.
_SCRIPT = f"""
python3 -c 'import datasets' 2>/dev/null || {{
  mkdir -p /tmp/stub && echo 'def load_dataset(*args, **kwargs): raise RuntimeError' > /tmp/stub/datasets.py
}}
PYTHONPATH=/tmp/stub python3 -m sglang.benchmark.serving "$@" 1>&2 && cat {OUTPUT_FILE}
"""


def run_bench_serving(
    container_id: str, image: str, arguments: tuple[str, ...], *, api_key: str | None, timeout_s: float
) -> str:
    """What ``sglang.benchmark.serving`` wrote: JSON Lines, with secrets still in it.

    The client shares the engine container's network and sees its model folders read-only; it gets no GPU. Raises
    KitError ``second-opinion-failed`` (exit 6) with the client's last words.
    """
    argv = (
        "docker", "run", "--rm", "--network", f"container:{container_id}", "--volumes-from", f"{container_id}:ro",
        "--env", "HF_HUB_OFFLINE=1", "--env", "OPENAI_API_KEY", "--entrypoint", "sh", image,
        "-c", _SCRIPT, "bench", *arguments, "--output-file", OUTPUT_FILE,
    )  # fmt: skip
    done = run_process(argv, timeout_s=timeout_s, env={"OPENAI_API_KEY": api_key or ""})
    if done.ok and done.stdout.strip():
        return done.stdout
    raise KitError(
        "second-opinion-failed",
        "the engine's own benchmark client gave no result",
        evidence=(done.failure or f"exit code {done.exit_code}", *done.stderr.splitlines()[-5:]),
        remedy="run kitctl bench without --with sglang; its own figures do not depend on it",
        exit_code=Exit.START,
    )
