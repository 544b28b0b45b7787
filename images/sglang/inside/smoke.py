"""Prove an engine image from inside, without a GPU and without a network: one JSON line a check.

usage: python - JSON < smoke.py   where JSON holds: stage, versions (name to version), cuda, arch, libraries (pattern
of library files to archs that they need not serve). Exit 0 also when checks fail: the lines tell.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from importlib import import_module, metadata
from pathlib import Path

ASKED = json.loads(sys.argv[1]) if __name__ == "__main__" else {"stage": "none"}
IS_GPU = ASKED["stage"] == "gpu"
SITE = Path(sysconfig.get_paths()["purelib"])
WORK = Path(tempfile.mkdtemp())
MODULES = ["torch", "transformers", "triton", "xgrammar", "sgl_kernel", "sglang.srt.server_args"]
GPU_MODULES = {
    "flashinfer": "flashinfer-python",
    "tvm_ffi": "apache-tvm-ffi",
    "deep_gemm": "sgl-deep-gemm",
    "torchao": "torchao",
    "openai_harmony": "openai-harmony",
    "llguidance": "llguidance",
}
KERNEL = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void twice(__nv_bfloat16 *x) { x[threadIdx.x] = __hadd(x[threadIdx.x], x[threadIdx.x]); }
"""


class FailedError(Exception):
    """What a check saw that must not be."""


def need(truth: object, otherwise: str) -> None:
    if not truth:
        raise FailedError(otherwise)


def run(*argv: str, limit_s: float = 600, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=limit_s, env={**os.environ, **environment}
    )


def tail(done: subprocess.CompletedProcess[str]) -> str:
    return " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:])


def plain(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def run_user() -> str:
    need(os.getuid() != 0, "the image runs as root")
    return f"uid {os.getuid()}"


def versions() -> str:
    wrong = []
    for name, wanted in ASKED["versions"].items():
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = "absent"
        if found.partition("+")[0] != wanted:
            wrong.append(f"{name} is {found}, pinned {wanted}")
    need(not wrong, "; ".join(wrong[:5]))
    return f"{len(ASKED['versions'])} packages as pinned"


def requirements() -> str:
    """As ``pip check``; the cpu stage lacks packages on purpose, so there only versions are judged."""
    from packaging.requirements import Requirement

    known = {plain(dist.metadata["Name"]): dist.version for dist in metadata.distributions()}
    broken = []
    for dist in metadata.distributions():
        for text in dist.requires or ():
            wish = Requirement(text)
            if wish.marker is not None and not wish.marker.evaluate({"extra": ""}):
                continue
            found = known.get(plain(wish.name))
            if found is None and IS_GPU:
                broken.append(f"{dist.metadata['Name']} needs {wish.name}")
            if found is not None and not wish.specifier.contains(found, prereleases=True):
                broken.append(f"{dist.metadata['Name']} needs {wish}, found {found}")
    need(not broken, "; ".join(broken[:5]))
    return f"{len(known)} packages agree"


def imports() -> str:
    """The modules that the engine needs; of the GPU's those whose package this pin set holds."""
    more = (
        [module for module, package in GPU_MODULES.items() if package in ASKED["versions"]] if IS_GPU else []
    )
    code = f"import importlib\nfor name in {MODULES + more}: importlib.import_module(name)"
    done = run(sys.executable, "-c", code)
    need(done.returncode == 0, tail(done))
    return ", ".join(MODULES + more)


def cuda_build() -> str:
    torch = import_module("torch")
    need(torch.version.cuda == ASKED["cuda"], f"torch is built for CUDA {torch.version.cuda}")
    return f"torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}"


def caches() -> str:
    names = [
        name for name in os.environ if re.search(r"CACHE|^HOME$|WORKSPACE", name) and "/" in os.environ[name]
    ]
    for name in names:
        folder = Path(os.environ[name])
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".probe").write_text("x")
            (folder / ".probe").unlink()
        except OSError as refused:
            raise FailedError(f"{name}={folder}: {refused}") from refused
    return f"{len(names)} folders writable as the run user"


def entry_point() -> str:
    done = run(sys.executable, "-m", "sglang.launch_server", "--help")
    need(done.returncode == 0, tail(done))
    return f"--help shows {len(set(re.findall(r'--[a-z][a-z0-9-]+', done.stdout)))} options"


def no_driver() -> str:
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    code = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False)
    need(done.returncode != 0, "the image brings a libcuda.so.1 that would stand in for the host's")
    return "the driver's library comes from the host"


def compiler() -> str:
    (WORK / "kernel.cu").write_text(KERNEL)
    nvcc = "/usr/local/cuda/bin/nvcc"
    need(Path(nvcc).exists(), "nvcc is missing")
    said = run(nvcc, "--version").stdout
    need(f"release {ASKED['cuda']}" in said, f"nvcc is not {ASKED['cuda']}: {said.splitlines()[-2:]}")
    source, linked = str(WORK / "kernel.cu"), str(WORK / "kernel.so")
    for arch in ASKED["arch"]:
        number = arch.replace(".", "")
        both = [f"-gencode=arch=compute_{number}{x},code=sm_{number}{x}" for x in ("", "a")]
        done = run(nvcc, *both, "-Xcompiler", "-fPIC", "-c", source, "-o", str(WORK / f"{number}.o"))
        need(done.returncode == 0, f"{arch}: {tail(done)}")
    objects = [str(WORK / f"{arch.replace('.', '')}.o") for arch in ASKED["arch"][:1]]
    done = run(nvcc, "-shared", "-lcuda", "-L/usr/local/cuda/lib64/stubs", *objects, "-o", linked)
    need(done.returncode == 0, f"link: {tail(done)}")
    return f"nvcc {ASKED['cuda']} compiles for {' '.join(ASKED['arch'])} (and their a variants) and links"


def triton_assembler() -> str:
    """Triton brings its own ptxas: it must know every arch of the list."""
    tools = sorted((SITE / "triton/backends/nvidia/bin").glob("ptxas*"))
    named = [os.environ[name] for name in os.environ if name.startswith("TRITON_PTXAS")]
    known: set[str] = set()
    for tool in [*map(str, tools), *named]:
        known |= set(re.findall(r"sm_(\d+)", run(tool, "--help").stdout))
    missing = [arch for arch in ASKED["arch"] if arch.replace(".", "") not in known]
    need(not missing, f"no ptxas of Triton's knows {' '.join(missing)}")
    return f"{', '.join(tool.name for tool in tools)} know {' '.join(ASKED['arch'])}"


def serves(arch: str, binaries: set[str], ptx: set[str]) -> bool:
    """Own code, code of the same major version and a lower minor one, or PTX of a lower version."""
    major, minor = map(int, arch.split("."))
    for name in binaries:
        found = re.fullmatch(r"(\d+)(\d)([af]?)", name)
        if found:
            same = (int(found[1]), int(found[2])) == (major, minor)
            family = int(found[1]) == major and int(found[2]) <= minor and found[3] != "a"
            if same or family:
                return True
    plain = [name for name in ptx if name.isdigit()]
    return any((int(name[:-1]), int(name[-1])) <= (major, minor) for name in plain)


def kernel_archs() -> str:
    """Every arch of the list is served by each kernel library, but for the exceptions that pins.toml lists."""
    reader = str(SITE / "triton/backends/nvidia/bin/cuobjdump")
    unserved, seen = [], []
    for pattern, exempt in ASKED["libraries"].items():
        files = sorted(SITE.glob(pattern))
        need(files, f"no library matches {pattern}")
        binaries: set[str] = set()
        ptx: set[str] = set()
        for file in files:
            binaries |= set(
                re.findall(r"\.sm_(\d+[af]?)\.cubin", run(reader, "--list-elf", str(file)).stdout)
            )
            ptx |= set(re.findall(r"\.sm_(\d+[af]?)\.ptx", run(reader, "--list-ptx", str(file)).stdout))
        for arch in ASKED["arch"]:
            if arch not in exempt and not serves(arch, binaries, ptx):
                unserved.append(f"{pattern} has no code for {arch} (has {' '.join(sorted(binaries | ptx))})")
        seen.append(f"{pattern.rpartition('/')[2]}: {' '.join(sorted(binaries))}")
    need(not unserved, "; ".join(unserved))
    return "; ".join(seen)


def make_model(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: i for i, letter in enumerate([*letters, "<end>"])}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    shape = dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=64, num_hidden_layers=2, vocab_size=257,
        head_dim=32, num_attention_heads=2, num_key_value_heads=1, intermediate_size=128, hidden_act="silu",
        rms_norm_eps=1e-6, max_position_embeddings=512, rope_theta=1e6, tie_word_embeddings=True,
        attention_bias=False, torch_dtype="bfloat16", bos_token_id=0, eos_token_id=256,
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(shape))


def one_completion() -> str:
    make_model(WORK / "model")
    started = time.monotonic()
    with (WORK / "server.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", "--model-path", str(WORK / "model"), "--load-format",
             "dummy", "--device", "cpu", "--host", "127.0.0.1", "--port", "30001", "--max-total-tokens", "2048",
             "--attention-backend", "torch_native", "--sampling-backend", "pytorch", "--skip-server-warmup"],
            stdout=log, stderr=log, env={**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
    try:
        while time.monotonic() - started < 300 and server.poll() is None:
            with contextlib.suppress(OSError):
                body = {"text": "hello", "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}
                asked = urllib.request.Request(
                    "http://127.0.0.1:30001/generate",
                    json.dumps(body).encode(),
                    {"Content-Type": "application/json"},
                )
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    tokens = json.load(answer)["meta_info"]["completion_tokens"]
                    need(tokens == 4, f"4 tokens were asked for, {tokens} came")
                    return f"4 tokens, {time.monotonic() - started:.0f} s after launch"
            time.sleep(0.3)
        last = [line for line in (WORK / "server.log").read_text().splitlines() if line.strip()][-2:]
        raise FailedError(f"the engine did not answer: {' | '.join(last)[-400:]}")
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def driver_stand_in() -> str:
    """Kernel libraries link the driver's library: for this test alone the loader finds the compiler's stand-in."""
    stand_in = Path("/usr/local/cuda/lib64/stubs/libcuda.so")
    need(stand_in.exists(), f"{stand_in} is missing")
    (WORK / "driver").mkdir()
    (WORK / "driver/libcuda.so.1").symlink_to(stand_in)
    os.environ["LD_LIBRARY_PATH"] = str(WORK / "driver")
    return f"{stand_in} to link against"


CHECKS = [run_user, versions, requirements, caches]
GPU_CHECKS = [no_driver, compiler, triton_assembler, kernel_archs, driver_stand_in]
LAST = [imports, cuda_build, entry_point, one_completion]


def main() -> None:
    for check in [*CHECKS, *(GPU_CHECKS if IS_GPU else []), *LAST]:
        begun = time.monotonic()
        try:
            ok, detail = True, check()
        except Exception as problem:
            known = isinstance(problem, FailedError)
            ok, detail = False, str(problem) if known else f"{type(problem).__name__}: {problem}"
        line = {"name": check.__name__.replace("_", "-"), "ok": ok, "detail": detail}
        print(json.dumps({**line, "seconds": round(time.monotonic() - begun, 2)}), flush=True)


if __name__ == "__main__":
    main()
