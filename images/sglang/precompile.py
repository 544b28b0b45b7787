"""Compile the kernels that the engine would compile at its first start, into its caches, without a GPU.

usage: precompile.py LIST ARCH...   LIST: JSON, kernels as {"module", "call", "args"}; a text that torch knows as a
dtype (bfloat16) is handed over as that. With `flashinfer` true the call's answer is built by FlashInfer.
Each arch has a process of its own, since the engine remembers what its probes said; FlashInfer builds one library
for all of them.
"""

import importlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def imitate_gpu(arch: str) -> None:
    """Give torch's probes the answers of one GPU of this arch; the compilers ask no more."""
    import torch

    major, minor = map(int, arch.split("."))
    properties = SimpleNamespace(
        major=major,
        minor=minor,
        name=f"imitated {arch}",
        total_memory=2**36,
        multi_processor_count=148,
        warp_size=32,
    )
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_capability": (major, minor),
        "get_device_properties": properties, "get_device_name": properties.name, "set_device": None,
        "mem_get_info": (2**36, 2**36),
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *args, _answer=answer, **kwargs: _answer)


def value_of(argument: Any) -> Any:
    import torch

    return getattr(torch, argument) if isinstance(argument, str) and hasattr(torch, argument) else argument


def compile_one(kernel: dict[str, Any]) -> None:
    function = getattr(importlib.import_module(kernel["module"]), kernel["call"])
    made = function(*[value_of(argument) for argument in kernel["args"]])
    if kernel.get("flashinfer"):
        made.build(verbose=False)
        keep_ahead_of_time(made)


def keep_ahead_of_time(made: Any) -> None:
    """FlashInfer loads a library that lies among its own without asking its compiler."""
    import flashinfer

    place = Path(flashinfer.__file__).parent / "data" / "aot" / made.name / f"{made.name}.so"
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made.jit_library_path, place)


def compile_all(archs: list[str], kernels: list[dict[str, Any]]) -> int:
    """The number of kernels that could not be compiled. ``archs`` holds one, or all of a library for several."""
    imitate_gpu(archs[0])
    failed = 0
    for kernel in kernels:
        begun = time.monotonic()
        name = (
            f"{' '.join(archs)} {kernel['module'].rpartition('.')[2]}.{kernel['call']}{tuple(kernel['args'])}"
        )
        try:
            compile_one(kernel)
            print(f"compiled {name} in {time.monotonic() - begun:.0f} s", flush=True)
        except Exception as problem:
            failed += 1
            print(f"not compiled: {name}: {type(problem).__name__}: {str(problem)[-600:]}", flush=True)
    return failed


def in_child(archs: list[str], kernels: list[dict[str, Any]]) -> int:
    child = os.fork()
    if child == 0:
        os._exit(1 if compile_all(archs, kernels) else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tidy(folder: Path) -> None:
    """Leave the libraries alone: sources, objects and logs of the compiler are of no use."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and path.suffix != ".so":
            path.unlink()


def main() -> None:
    kernels = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    archs = sys.argv[2:]
    own = [kernel for kernel in kernels if not kernel.get("flashinfer")]
    failures = [in_child([arch], own) for arch in archs]
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = " ".join(f"{arch}a" for arch in archs)
    failures.append(in_child(archs, [kernel for kernel in kernels if kernel.get("flashinfer")]))
    tidy(Path(os.environ["TVM_FFI_CACHE_DIR"]))
    shutil.rmtree(Path(os.environ["FLASHINFER_WORKSPACE_BASE"]) / ".cache" / "flashinfer", ignore_errors=True)
    sys.exit(1 if any(failures) else 0)


main()
