"""Compile the kernels that the engine would compile at its first start, into its caches, without a GPU.

usage: precompile.py [--check] LIST ARCH...   LIST: a JSON file (or its text): kernels as {"module", "call", "args"}; a
text that torch knows as a dtype (bfloat16) is handed over as that. With `flashinfer` true the call's answer is built
by FlashInfer. --check: compile nothing; fail unless the engine's own lookup finds every kernel in the caches.

Each arch has processes of its own, since the engine remembers what its probes said. Where the folder KEPT exists,
what a kernel's compilation left in the caches is kept there and taken from there the next time.
"""

import ctypes
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CACHE = Path("/cache")
KEPT = Path("/var/cache/kernels")
STAND_IN = Path("/usr/local/cuda/lib64/stubs/libcuda.so")
# What a compiled kernel depends on beside its own arguments.
BUILT_WITH = ("apache-tvm-ffi", "flashinfer-python", "sglang", "torch")
COMPILER = ("nvidia-cuda-", "nvidia-nvvm", "nvidia-mathdx")
Kernel = dict[str, Any]
BUILT: set[Path] = set()


class WouldCompileError(Exception):
    """The engine did not find a kernel in its caches."""


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


def make(kernel: Kernel) -> None:
    """Have the engine load the kernel, which compiles it when its caches do not hold it."""
    function = getattr(importlib.import_module(kernel["module"]), kernel["call"])
    made = function(*[value_of(argument) for argument in kernel["args"]])
    if kernel.get("flashinfer"):
        made.build(verbose=False)


def toolchain_key() -> str:
    """Names the folder of kernels that the same sources and compilers made."""
    versions = sorted(
        f"{dist.metadata['Name']} {dist.version}"
        for dist in metadata.distributions()
        if dist.metadata["Name"] in BUILT_WITH or dist.metadata["Name"].startswith(COMPILER)
    )
    gcc = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    return hashlib.sha256("\n".join([*versions, gcc]).encode()).hexdigest()[:16]


def kept_place(arch: str, kernel: Kernel) -> Path:
    digest = hashlib.sha256(json.dumps(kernel, sort_keys=True).encode()).hexdigest()[:16]
    return KEPT / toolchain_key() / arch / digest


def take(place: Path) -> bool:
    """Copy what was kept of a kernel into the caches; whether there was anything."""
    if place.is_dir():
        shutil.copytree(place, CACHE, dirs_exist_ok=True)
    return place.is_dir()


def keep(place: Path, built: set[Path]) -> None:
    """Keep the folders in which a kernel was built. They appear whole or not at all."""
    if not KEPT.is_dir() or not built:
        return
    beside = place.with_suffix(".partial")
    shutil.rmtree(beside, ignore_errors=True)
    for folder in built:
        shutil.copytree(folder, beside / folder.relative_to(CACHE), dirs_exist_ok=True)
    beside.rename(place)


def note_builds() -> set[Path]:
    """The folders in which ninja compiles from now on; what it stages in a folder of its own lies beside it after."""
    built: set[Path] = set()
    run = subprocess.run

    def noting(*words: Any, **options: Any) -> Any:
        if is_ninja(words, options):
            folder = Path(options["cwd"])
            built.add(folder.parent if folder.name.startswith(".staging") else folder)
        return run(*words, **options)

    subprocess.run = noting
    return built


def is_ninja(words: tuple[Any, ...], options: dict[str, Any]) -> bool:
    argv = words[0] if words else options["args"]
    return isinstance(argv, list) and Path(str(argv[0])).name == "ninja"


def compile_one(arch: str, kernel: Kernel) -> str:
    place = kept_place(arch, kernel)
    if take(place):
        make(kernel)
        return "kept from before:"
    BUILT.clear()
    make(kernel)
    keep(place, BUILT)
    return "compiled"


def forbid_compiling() -> None:
    """Let ninja say only whether it would run a compiler, and take that for a failure."""
    run = subprocess.run

    def checked(*words: Any, **options: Any) -> Any:
        if not is_ninja(words, options):
            return run(*words, **options)
        argv = words[0] if words else options["args"]
        done = run([*argv, "-n"], capture_output=True, text=True, check=False, cwd=options.get("cwd"))
        if "no work to do" not in done.stdout:
            raise WouldCompileError(done.stdout.strip().splitlines()[-1][:200])
        return done

    subprocess.run = checked
    os.environ["SGLANG_CRASH_ON_JIT_COMPILE"] = "1"


def prepare(arch: str, *, check: bool) -> None:
    """What a worker does before its first kernel."""
    global BUILT
    os.environ["MAX_JOBS"] = str(max(1, (os.cpu_count() or 1) // 4))
    if check:
        forbid_compiling()
    else:
        BUILT = note_builds()
    imitate_gpu(arch)


def work(arch: str, kernel: Kernel, *, check: bool) -> bool:
    """Compile or find one kernel and say so; whether it went well."""
    begun = time.monotonic()
    name = f"{arch} {kernel['module'].rpartition('.')[2]}.{kernel['call']}{tuple(kernel['args'])}"
    try:
        if check:
            make(kernel)
        did = "found" if check else compile_one(arch, kernel)
        print(f"{did} {name} in {time.monotonic() - begun:.1f} s\n", end="", flush=True)
    except Exception as problem:
        print(f"FAILED {name}: {type(problem).__name__}: {str(problem)[-600:]}\n", end="", flush=True)
        return False
    return True


def work_through(arch: str, kernels: list[Kernel], *, check: bool) -> bool:
    """All kernels of one arch, as many at once as there are processors; whether all went well."""
    with ProcessPoolExecutor(
        max_workers=os.cpu_count(),
        mp_context=get_context("fork"),
        initializer=partial(prepare, arch, check=check),
    ) as pool:
        return all([*pool.map(partial(work, arch, check=check), kernels)])


def show_driver() -> None:
    """Kernel libraries link the driver's library; the compiler's own stand-in satisfies the loader."""
    ctypes.CDLL(str(STAND_IN), mode=ctypes.RTLD_GLOBAL)


def is_needless(path: Path) -> bool:
    """Logs, locks, and what the compilers left beside the libraries. FlashInfer has ninja look at its objects."""
    own = any(path.is_relative_to(os.environ[name]) for name in ("TVM_FFI_CACHE_DIR", "SGLANG_JIT_CACHE_DIR"))
    left = own and path.suffix not in (".so", ".json")
    return path.is_file() and (left or path.suffix == ".log" or path.suffix == ".lock" or path.name == "lock")


def settle() -> None:
    """Leave what a start reads; the run user owns the caches; time stamps as everywhere in the image."""
    user, epoch = CACHE.stat(), int(os.environ["SOURCE_DATE_EPOCH"])
    for path in sorted(CACHE.rglob("*"), reverse=True):
        if is_needless(path):
            path.unlink()
            continue
        os.chown(path, user.st_uid, user.st_gid, follow_symlinks=False)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(CACHE, (epoch, epoch))


def main() -> None:
    check = sys.argv[1] == "--check"
    given, *archs = sys.argv[2 if check else 1 :]
    kernels = json.loads(given if given.startswith("[") else Path(given).read_text(encoding="utf-8"))
    done = [work_through(arch, kernels, check=check) for arch in archs]
    if not check:
        settle()
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    show_driver()
    main()
