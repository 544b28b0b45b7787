"""How long does doctor take on a host with 8 GPUs, against its slowest single probe?

``python tests/benchmarks/doctor_speed.py``. nvidia-smi is imitated and takes SLOW_S seconds for each question, as a
cold driver with 8 GPUs does. Prints one JSON object; the bound is 2x.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from gpuhost.gpu_host import write_nvidia_smi

from kitctl.edge.probe_runner import gather_host_facts

SLOW_S = 1.5


def main() -> None:
    """Measure three times; the best counts, since the machine is shared."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        write_nvidia_smi(where / "genuine", count=8, gpu_class="pcie")
        slow = f'#!/bin/sh\nsleep {SLOW_S}\nexec {where}/genuine "$@"\n'
        (where / "nvidia-smi").write_text(slow)
        (where / "nvidia-smi").chmod(0o755)
        for minor in range(8):
            (where / f"nvidia{minor}").touch()
        os.environ["PATH"] = f"{where}:{os.environ['PATH']}"
        os.environ["IMITATED_GPU_NODES"] = folder
        walls = []
        for _ in range(3):
            started = time.perf_counter()
            facts = gather_host_facts(engine=None, disks=("/",))
            walls.append(time.perf_counter() - started)
            assert facts.gpus is not None
            assert len(facts.gpus) == 8
    best = min(walls)
    told = {"slowest_probe_s": SLOW_S, "doctor_s": round(best, 2), "ratio": round(best / SLOW_S, 2)}
    print(json.dumps(told | {"all_s": [round(wall, 2) for wall in walls]}))


if __name__ == "__main__":
    main()
