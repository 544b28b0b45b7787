"""How fast are deep verify and transfer, against one ``openssl dgst -sha256`` a core on the same files?

Run by hand: ``python tests/benchmarks/model_store_speed.py [FOLDER] [GB]``. Writes a store of GB (default 4) in
four shards, measures in turn openssl, deep verify (fresh) and verify again (remembered), each ROUNDS times, and
prints one JSON object with the best of each. The files are in the page cache, so that hashing is measured, not
the disk; a last round reads them with the cache dropped where that is allowed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kitctl.edge.attest import Attestations, deep_verify
from kitctl.edge.streams import Source
from kitctl.edge.transfer import Patience, Reporter, fetch_file
from kitctl.kit.models_lock import FileRole, LockedFile, LockState, ModelEntry

ROUNDS = 3
SHARDS = 4


def write_shard(path: Path, size: int) -> LockedFile:
    digest, block = hashlib.sha256(), os.urandom(8 * 1024**2)
    with path.open("wb") as out:
        for count in range(size // len(block)):
            piece = count.to_bytes(8, "little") + block[8:]
            out.write(piece)
            digest.update(piece)
    return LockedFile(
        path=path.name, size_bytes=path.stat().st_size, role=FileRole.WEIGHTS, sha256=digest.hexdigest()
    )


def seconds_of(act: Callable[[], object]) -> tuple[float, float]:
    """Wall time and processor time (of this process and of its children)."""
    begun, before = time.monotonic(), os.times()
    act()
    after = os.times()
    return time.monotonic() - begun, sum(after[:4]) - sum(before[:4])


def best_of(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    """The least wall time and the least processor time."""
    walls, cpus = zip(*rounds, strict=True)
    return min(walls), min(cpus)


def cold(paths: list[Path], act: Callable[[], object]) -> tuple[float, float]:
    drop_cache(paths)
    return seconds_of(act)


def openssl_all(paths: list[Path]) -> None:
    """One openssl process a core, files handed out as cores get free."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done in pool.map(
            lambda p: subprocess.run(["openssl", "dgst", "-sha256", p], capture_output=True), paths
        ):
            assert done.returncode == 0


def drop_cache(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(paths: list[Path]) -> None:
    def read(path: Path) -> None:
        buffer = bytearray(1024**2)
        with path.open("rb", buffering=0) as handle:
            while handle.readinto(buffer):
                pass

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(read, paths))


def fetch_from_loopback(folder: Path, file: LockedFile, target: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "0", "--directory", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().split(" port ")[1].split()[0]
        entry = ModelEntry(repo="bench/x", state=LockState.LOCKED, files=(file,))
        source = Source(entry=entry, file=file, url=f"http://127.0.0.1:{port}/{file.path}")
        reporter = Reporter(came=lambda n: None, had=lambda n: None, say=print, stop=threading.Event())
        part = target / "x.kitctl-part"
        fetch_file(source, part, target / "x", patience=Patience(tries=1, stall_s=30), reporter=reporter)
    finally:
        server.terminate()
        server.communicate()


def main() -> None:
    folder = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None))
    total = int(float(sys.argv[2] if len(sys.argv) > 2 else 4) * 1e9)
    try:
        files = [
            (write_shard(folder / f"{i}.bin", total // SHARDS), folder / f"{i}.bin") for i in range(SHARDS)
        ]
        paths = [path for _, path in files]
        size = sum(file.size_bytes for file, _ in files)
        memory = str(folder / "memory")

        def verify(*, fresh: bool) -> None:
            verdicts = deep_verify(
                files,
                attestations=Attestations(memory),
                came=lambda n: None,
                stop=threading.Event(),
                fresh=fresh,
            )
            assert verdicts == ()

        read_all(paths)
        warm_rounds = [
            (seconds_of(lambda: openssl_all(paths)), seconds_of(lambda: verify(fresh=True)))
            for _ in range(ROUNDS)
        ]
        cold_rounds = [
            (
                cold(paths, lambda: read_all(paths)),
                cold(paths, lambda: openssl_all(paths)),
                cold(paths, lambda: verify(fresh=True)),
            )
            for _ in range(ROUNDS)
        ]
        openssl, deep = (best_of(list(column)) for column in zip(*warm_rounds, strict=True))
        disk, openssl_cold, deep_cold = (best_of(list(column)) for column in zip(*cold_rounds, strict=True))
        again_s = min(seconds_of(lambda: verify(fresh=False))[0] for _ in range(ROUNDS))
        fetch = best_of([seconds_of(lambda: fetch_from_loopback(folder, files[0][0], folder / "target"))])
    finally:
        shutil.rmtree(folder)
    print(
        json.dumps(
            {
                "schema": "kitctl.benchmark.model-store/1",
                "cores": len(os.sched_getaffinity(0)),
                "size_bytes": size,
                "openssl_bytes_per_s": round(size / openssl[0]),
                "deep_bytes_per_s": round(size / deep[0]),
                "deep_of_openssl": round(openssl[0] / deep[0], 3),
                "openssl_cpu_s": round(openssl[1], 2),
                "deep_cpu_s": round(deep[1], 2),
                "again_s": round(again_s, 4),
                "disk_bytes_per_s": round(size / disk[0]),
                "deep_cold_bytes_per_s": round(size / deep_cold[0]),
                "openssl_cold_bytes_per_s": round(size / openssl_cold[0]),
                "deep_cold_of_openssl_cold": round(openssl_cold[0] / deep_cold[0], 3),
                "fetch_loopback_bytes_per_s": round(files[0][0].size_bytes / fetch[0]),
                "warm_s": [[round(one[0], 2) for one in row] for row in warm_rounds],
                "cold_s": [[round(one[0], 2) for one in row] for row in cold_rounds],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
