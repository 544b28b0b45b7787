"""Print the C source of a libcuda.so.1 without a driver: every function answers 100 (no device).

usage: stub_libcuda.py FOLDER   Reads which driver functions the libraries in FOLDER expect (with nm and readelf).
torch and the kernel libraries of the engine link the driver library, which only a GPU host has; with this one
they load, see no GPU, and the engine serves on the processor.
"""

import re
import subprocess
import sys
from pathlib import Path

ALWAYS = {
    "cuCtxGetCurrent", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetCount", "cuDriverGetVersion",
    "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetProcAddress_v2", "cuInit",
}  # fmt: skip
DRIVER_FUNCTION = re.compile(r"\bU (cu[A-Z]\w*)$", re.MULTILINE)


def output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def expected(library: Path) -> set[str]:
    if "[libcuda.so.1]" not in output("readelf", "-d", str(library)):
        return set()
    return set(DRIVER_FUNCTION.findall(output("nm", "-D", "--undefined-only", str(library))))


functions = ALWAYS.union(*(expected(path) for path in sorted(Path(sys.argv[1]).rglob("*.so*"))))
for name in sorted(functions):
    print(f"int {name}(void) {{ return 100; }}")
