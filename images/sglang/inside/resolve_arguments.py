"""Put launch lines through the engine's own argument resolution, inside its image, without a GPU.

usage: python - JSON < resolve_arguments.py   JSON: {"cases": [{"name", "argv", "environment", "files", "arch",
"gpus", "memory_mib"}]}. `files` maps absolute paths that the argv names to texts (config.json). `arch` is the
compute capability whose answers the engine's probes get; null: no GPU. One JSON line a case.
"""

import contextlib
import ctypes
import io
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

SHOWN = (
    "attention_backend", "prefill_attention_backend", "decode_attention_backend", "moe_runner_backend",
    "sampling_backend", "grammar_backend", "page_size", "mem_fraction_static", "chunked_prefill_size",
    "max_running_requests", "speculative_algorithm", "speculative_num_draft_tokens",
    "speculative_draft_attention_backend", "disable_overlap_schedule", "flashinfer_allreduce_fusion_backend",
)  # fmt: skip


def show_driver() -> None:
    """Kernel libraries link the driver's library; the compiler's own empty stand-in satisfies the loader."""
    stub = Path("/usr/local/cuda/lib64/stubs/libcuda.so")
    if stub.exists():
        ctypes.CDLL(str(stub), mode=ctypes.RTLD_GLOBAL)


def imitate_gpus(arch: str, gpus: int, memory_mib: int) -> None:
    """Give torch's probes the answers of GPUs of this arch; nothing is run on them."""
    import torch

    major, minor = map(int, arch.split("."))
    size = memory_mib * 2**20
    properties = SimpleNamespace(
        major=major, minor=minor, name=f"imitated {arch}", total_memory=size, multi_processor_count=148,
        gcnArchName="", L2_cache_size=2**26, shared_memory_per_block_optin=232448, warp_size=32,
        max_threads_per_multi_processor=2048,
    )  # fmt: skip
    answers = {
        "is_available": True, "device_count": gpus, "current_device": 0, "get_device_capability": (major, minor),
        "get_device_properties": properties, "get_device_name": properties.name,
        "mem_get_info": (size - 2**30, size), "set_device": None, "synchronize": None, "empty_cache": None,
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *args, _answer=answer, **kwargs: _answer)


def in_effect(args: object) -> object:
    """Newer engines leave the arguments as they were given and keep what they decided beside them (0.5.23)."""
    try:
        from sglang.srt.arg_groups.model_override_base import resolved_view
    except ImportError:
        return args
    return resolved_view(args)


def resolve(argv: list[str]) -> dict[str, object]:
    from sglang.srt.server_args import prepare_server_args

    args = prepare_server_args(argv)
    for step in ("resolve_once", "check_server_args"):
        if hasattr(args, step):
            getattr(args, step)()
    settled = in_effect(args)
    found = {name: getattr(settled, name, None) for name in SHOWN}
    return {name: value for name, value in found.items() if value is not None}


def judge(case: dict) -> dict[str, object]:
    os.environ.update(case["environment"])
    said = io.StringIO()
    answer: dict[str, object] = {
        "name": case["name"],
        "arch": case["arch"],
        "ok": True,
        "error": "",
        "resolved": {},
    }
    begun = time.monotonic()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            answer["resolved"] = json.loads(json.dumps(resolve(case["argv"]), default=str))
        except SystemExit as refused:
            lines = [line for line in said.getvalue().splitlines() if "error:" in line]
            message = lines[-1].partition("error: ")[2] if lines else f"exit code {refused.code}"
            answer |= {"ok": False, "error": message}
        except Exception as refused:
            answer |= {"ok": False, "error": f"{type(refused).__name__}: {refused}"}
    answer["warnings"] = [line[-300:] for line in said.getvalue().splitlines() if "eprecated" in line][:5]
    answer["seconds"] = round(time.monotonic() - begun, 2)
    return answer


def in_child(work: Callable[[], None]) -> None:
    """Run ``work`` in a process of its own: the engine remembers what its probes said."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(child, 0)


def judge_on(arch: str | None, cases: list[dict]) -> None:
    """Import the engine once for this arch, then judge each case in a child of its own."""
    if arch:
        imitate_gpus(arch, cases[0]["gpus"], cases[0]["memory_mib"])
    with contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        import sglang.srt.server_args  # noqa: F401
    for case in cases:
        in_child(lambda case=case: print(json.dumps(judge(case)), flush=True))


def place_files(case: dict, root: Path) -> None:
    """Write the case's files below ``root`` and let its argv point there."""
    for path, text in case["files"].items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    folders = {str(Path(path).parent) for path in case["files"]}
    case["argv"] = [f"{root}{word}" if word in folders else word for word in case["argv"]]


def main() -> None:
    cases = json.loads(sys.argv[1])["cases"]
    root = Path(tempfile.mkdtemp())
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if any(case["arch"] for case in cases):
        show_driver()
    import torch  # noqa: F401  # shared by all children
    import transformers  # noqa: F401

    for case in cases:
        place_files(case, root)
    kinds = dict.fromkeys((case["arch"], case["gpus"], case["memory_mib"]) for case in cases)
    for kind in kinds:
        fitting = [case for case in cases if (case["arch"], case["gpus"], case["memory_mib"]) == kind]
        in_child(lambda kind=kind, fitting=fitting: judge_on(kind[0], fitting))


main()
