"""How fast are deep verify and transfer, against one ``openssl dgst -sha256`` a core on the same files?

Run by hand: ``python tests/benchmarks/model_store_speed.py [FOLDER] [GB] [PAIRS]``. Writes a store of GB (default 4)
in four shards a core and prints one JSON object. Another process on the machine slows whichever of the two it meets,
so both run in PAIRS (default 9), the first of a pair in turn: a pair gives one ratio, and the median of the ratios is
the result. Processor seconds, which others hardly change, stand beside. Warm pairs read from the page cache, so that
hashing is measured; cold pairs drop it first, where reading alone tells what the disk gives.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
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

PAIRS = 9
SHARDS_PER_CORE = 4
TARGET = 0.9

Took = tuple[float, float]
"""Wall seconds and processor seconds."""
Measure = Callable[[], Took]


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


def seconds_of(act: Callable[[], object]) -> Took:
    """Wall time and processor time (of this process and of its children)."""
    begun, before = time.monotonic(), os.times()
    act()
    after = os.times()
    return time.monotonic() - begun, sum(after[:4]) - sum(before[:4])


def cold(paths: list[Path], act: Callable[[], object]) -> Took:
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


def pair(count: int, one: Measure, other: Measure) -> tuple[Took, Took]:
    """Both, one after the other; which comes first changes from pair to pair."""
    if count % 2:
        second, first = other(), one()
        return first, second
    return one(), other()


def summary(pairs: list[tuple[Took, Took]], size: int) -> dict[str, object]:
    """Deep verify over openssl: the median ratio of wall times and its range, the best rates, processor seconds."""
    ratios = sorted(openssl[0] / deep[0] for openssl, deep in pairs)
    cores = len(os.sched_getaffinity(0))
    return {
        "deep_of_openssl_median": round(statistics.median(ratios), 3),
        "deep_of_openssl_range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "openssl_bytes_per_s": round(size / min(openssl[0] for openssl, _ in pairs)),
        "deep_bytes_per_s": round(size / min(deep[0] for _, deep in pairs)),
        "openssl_cpu_s": round(min(openssl[1] for openssl, _ in pairs), 2),
        "deep_cpu_s": round(min(deep[1] for _, deep in pairs), 2),
        "cores_busy_in_deep": round(max(deep[1] / deep[0] for _, deep in pairs) / cores, 3),
        "wall_s": [[round(openssl[0], 2), round(deep[0], 2)] for openssl, deep in pairs],
    }


def main() -> None:
    words = [*sys.argv[1:], "", "", ""]
    folder = Path(tempfile.mkdtemp(dir=words[0] or None))
    pairs, cores = int(words[2] or PAIRS), len(os.sched_getaffinity(0))
    load_before = os.getloadavg()[0]
    try:
        share = int(float(words[1] or 4) * 1e9) // (SHARDS_PER_CORE * cores)
        names = [folder / f"{i}.bin" for i in range(SHARDS_PER_CORE * cores)]
        files = [(write_shard(path, share), path) for path in names]
        paths, size = names, sum(file.size_bytes for file, _ in files)
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

        def openssl() -> Took:
            return seconds_of(lambda: openssl_all(paths))

        def deep() -> Took:
            return seconds_of(lambda: verify(fresh=True))

        read_all(paths)
        warm = [pair(count, openssl, deep) for count in range(pairs)]
        again_s = min(seconds_of(lambda: verify(fresh=False))[0] for _ in range(3))
        disk = [cold(paths, lambda: read_all(paths)) for _ in range(3)]
        in_turn = [
            pair(
                count,
                lambda: cold(paths, lambda: openssl_all(paths)),
                lambda: cold(paths, lambda: verify(fresh=True)),
            )
            for count in range(pairs)
        ]
        fetch = seconds_of(lambda: fetch_from_loopback(folder, files[0][0], folder / "target"))
    finally:
        shutil.rmtree(folder)
    warm_told, cold_told = summary(warm, size), summary(in_turn, size)
    told = {
        "schema": "kitctl.benchmark.model-store/2",
        "cores": cores,
        "size_bytes": size,
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
        "target": TARGET,
        "target_met": warm_told["deep_of_openssl_median"] >= TARGET,  # type: ignore[operator]
        "warm": warm_told,
        "cold": cold_told,
        "disk_bytes_per_s": round(size / min(took[0] for took in disk)),
        "again_s": round(again_s, 4),
        "fetch_loopback_bytes_per_s": round(files[0][0].size_bytes / fetch[0]),
    }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
