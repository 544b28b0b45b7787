"""Run the collective probe in a short container with a hard time limit, and keep what it proved."""

from __future__ import annotations

import secrets
import tomllib
from pathlib import Path

import msgspec

from kitctl.edge.environment import state_dir
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.package_data import package_text
from kitctl.edge.process import run_process
from kitctl.plan.collective import Proof, Settings, Trial, probe_argv, read_trial
from kitctl.plan.types import GpuReservation

_END_S = 30.0


def collective_settings() -> Settings:
    """The settings of collective.toml."""
    return msgspec.convert(tomllib.loads(package_text("collective.toml")), Settings)


def run_trial(image: str, *, gpus: GpuReservation, environment: dict[str, str], settings: Settings) -> Trial:
    """One run of the probe in ``image``; a container that gives no answer in time is ended."""
    name = f"kitctl-collective-{secrets.token_hex(4)}"
    script = package_text("collective_probe.py")
    argv = probe_argv(image, script, name=name, gpus=gpus, environment=environment, settings=settings)
    done = run_process(argv, timeout_s=settings.limit_s)
    if done.exit_code is None:
        run_process(("docker", "rm", "--force", name), timeout_s=_END_S)
    return read_trial(done.stdout, done.stderr or done.failure or "", exit_code=done.exit_code)


def load_proof(key: str) -> Proof | None:
    """The proof kept under ``key``; ``None`` without one or when it is of another version."""
    text = read_text_if_there(_path(key))
    try:
        return msgspec.json.decode(text, type=Proof) if text is not None else None
    except msgspec.ValidationError:
        return None


def save_proof(proof: Proof) -> None:
    """Keep the proof until driver, kernel or links change."""
    write_atomic(_path(proof.key), msgspec.json.format(msgspec.json.encode(proof), indent=1).decode() + "\n")


def _path(key: str) -> str:
    return str(Path(state_dir()) / "collective" / f"{key}.json")
