"""Do these processes give the right sum, and how fast? Run by ``python3 -c`` inside the serving image.

The one argument is a JSON object: world, backend (nccl or gloo), sizes_bytes, rounds, timeout_s. Rank 0 prints one
line that begins with the mark. Needs torch and nothing else; each rank takes the GPU of its own number.
"""

import importlib
import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from typing import Any

MARK = "kitctl-collective"


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def work(rank: int, job: dict[str, Any], port: int) -> None:
    """One rank: join, check and time every size, and tell it when it is the first."""
    torch = importlib.import_module("torch")
    dist = importlib.import_module("torch.distributed")
    on_gpu = job["backend"] == "nccl"
    if on_gpu:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        job["backend"],
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=job["world"],
        timeout=timedelta(seconds=job["timeout_s"]),
    )
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    rows = [measure(torch, dist, size, rank, job, device) for size in job["sizes_bytes"]]
    if rank == 0:
        version = ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None
        told = {"world": job["world"], "backend": job["backend"], "nccl": version, "rows": rows}
        sys.stdout.write(f"\n{MARK} {json.dumps(told)}\n")
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


def measure(torch: Any, dist: Any, size: int, rank: int, job: dict[str, Any], device: Any) -> dict[str, Any]:
    """One size: whether every element of the sum is right on every rank, and the mean time of a round."""
    count, world = size // 4, job["world"]
    pattern = torch.arange(count, device=device, dtype=torch.float32) % 1021
    sent = pattern * (rank + 1)
    dist.all_reduce(sent)
    wrong = (sent != pattern * (world * (world + 1) // 2)).sum().to(torch.float32).reshape(1)
    dist.all_reduce(wrong)
    zeros = torch.zeros(count, device=device, dtype=torch.float32)
    for _ in range(3):
        dist.all_reduce(zeros)
    settle(torch, device)
    started = time.perf_counter()
    for _ in range(job["rounds"]):
        dist.all_reduce(zeros)
    settle(torch, device)
    seconds = (time.perf_counter() - started) / job["rounds"]
    return {
        "size_bytes": count * 4,
        "wrong_elements": int(wrong.item()),
        "time_us": round(seconds * 1e6, 2),
        "bus_gb_per_s": round(count * 4 / seconds / 1e9 * 2 * (world - 1) / world, 3),
    }


def settle(torch: Any, device: Any) -> None:
    """Wait for the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> int:
    """Fork the ranks before torch is imported; the first that fails ends all."""
    job = json.loads(sys.argv[1])
    port = free_port()
    children = []
    for rank in range(job["world"]):
        child = os.fork()
        if child == 0:
            work(rank, job, port)
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    while children:
        ended, status = os.wait()
        children.remove(ended)
        if status != 0:
            for child in children:
                os.kill(child, signal.SIGKILL)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
