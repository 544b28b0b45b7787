"""What is asked of an image's smoke test, and what do its lines say?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from kitctl.kit.constraints import read_constraints
from kitctl.kit.image_record import Smoke, SmokeCheck
from kitctl.kit.pins import PinSet, Stage


def smoke_question(pin_set: PinSet, stage: str, *, lock: Mapping[str, str]) -> str:
    """The JSON argument of the test inside the image: what must be found there."""
    lists = ["cpu-heavy.txt", "cpu.txt"] + (["gpu-heavy.txt", "gpu.txt"] if stage == Stage.GPU else [])
    names = {name for listed in lists for name in lock[listed].split()}
    packages = read_constraints(lock["constraints.txt"])
    return json.dumps(
        {
            "stage": stage,
            "versions": {name: packages[name].version for name in sorted(names)},
            "cuda": pin_set.entry.cuda,
            "arch": list(pin_set.entry.arch),
            "libraries": pin_set.entry.kernel_libraries,
        }
    )


def read_smoke(output: str, *, image_id: str, at: str, ended: str | None) -> Smoke:
    """The checks that the test printed; a test that ended before its last line has failed itself.

    ``ended``: why the container stopped early, ``None`` when it ended by itself with 0.
    """
    checks = [check for line in output.splitlines() if (check := _read_check(line)) is not None]
    if ended is not None:
        checks.append(SmokeCheck(name="smoke-test", ok=False, detail=ended, seconds=0.0))
    return Smoke(at=at, image_id=image_id, checks=tuple(checks))


def kernel_checks(output: str, *, archs: Sequence[str], ended: str | None) -> tuple[SmokeCheck, ...]:
    """One check for each arch whose run-time kernels the image holds: does the engine's own lookup find them all?

    ``output``: what precompile.py --check printed; ``ended``: as for ``read_smoke``.
    """
    return tuple(_kernel_check(output.splitlines(), arch, ended) for arch in archs)


def _kernel_check(lines: Sequence[str], arch: str, ended: str | None) -> SmokeCheck:
    found = [line for line in lines if line.startswith(f"found {arch} ")]
    failed = [line for line in lines if line.startswith(f"FAILED {arch} ")]
    seconds = sum(float(line.split()[-2]) for line in found)
    detail = (
        "; ".join(failed[:3]) or ended or f"{len(found)} found in the caches, none is compiled at a start"
    )
    ok = bool(found) and not failed and ended is None
    return SmokeCheck(name=f"kernels {arch}", ok=ok, detail=detail, seconds=round(seconds, 2))


def _read_check(line: str) -> SmokeCheck | None:
    try:
        return msgspec.json.decode(line, type=SmokeCheck)
    except msgspec.MsgspecError:
        return None
