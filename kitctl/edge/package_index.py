"""Ask the package index through uv: resolve a pin set, unpack an engine's wheel."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from kitctl.edge.machine import read_machine_config
from kitctl.edge.process import Finished, run_process
from kitctl.errors import Exit, KitError
from kitctl.kit.pins import PinEntry
from kitctl.plan.lock_request import compile_argv, fetch_source_argv, requirements_text
from kitctl.plan.machine_config import uv_config

_LIMIT_S = 900


def resolve_packages(entry: PinEntry, *, what: str) -> str:
    """All packages of the pin set with hashes. Raises KitError (exit 5) ``lock-failed``, ``no-uv``."""
    with tempfile.TemporaryDirectory(prefix="kitctl-lock-") as folder:
        argv = (*compile_argv(_uv(), entry), *_configuration(folder))
        done = run_process(argv, timeout_s=_LIMIT_S, stdin=requirements_text(entry), cwd=folder)
    return _output(done, what)


def engine_source(entry: PinEntry, *, engine: str, patterns: tuple[str, ...]) -> dict[str, str]:
    """The files of the engine's wheel that match ``patterns``, by path. Raises as ``resolve_packages``."""
    with tempfile.TemporaryDirectory(prefix="kitctl-lock-") as folder:
        site = f"{folder}/site"
        argv = (*fetch_source_argv(_uv(), entry, engine=engine, folder=site), *_configuration(folder))
        _output(run_process(argv, timeout_s=_LIMIT_S, cwd=folder), engine)
        found = [path for pattern in patterns for path in sorted(Path(site).glob(pattern))]
        return {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in found}


def _uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise KitError(
            "no-uv",
            "locking needs uv, which is not installed",
            remedy=f"{sys.executable} -m pip install uv",
            exit_code=Exit.FETCH,
        )
    return found


def _configuration(folder: str) -> tuple[str, ...]:
    text = uv_config(read_machine_config())
    if not text:
        return ("--no-config",)
    path = Path(folder) / "uv.toml"
    path.write_text(text, encoding="utf-8")
    return ("--config-file", str(path))


def _output(done: Finished, what: str) -> str:
    if done.ok:
        return done.stdout
    raise KitError(
        "lock-failed",
        f"{what} could not be resolved from the package index",
        evidence=tuple((done.failure or done.stderr).strip().splitlines()[-8:]),
        remedy="check that the index answers; if the versions contradict each other, mend them in pins.toml",
        exit_code=Exit.FETCH,
    )
