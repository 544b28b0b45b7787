"""Do the reserved GPUs add up rightly, and does P2P pay? The proof's argv, its reading and its verdict.

The same all-reduce runs twice in the serving image: as planned, and with P2P off as control, since neither the
driver's table nor copy bandwidth proves what NCCL does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kitctl.finding import Finding, blocking
from kitctl.host.facts import HostFacts
from kitctl.host.topology import LinkClass
from kitctl.plan.finding_book import FindingBook
from kitctl.plan.types import GpuDriver, GpuReservation

MARK = "kitctl-collective "
P2P_OFF = {"NCCL_P2P_DISABLE": "1"}
_INSIDE = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN"}
_HINDER = ("gpu", "driver", "nvidia", "docker", "cdi", "mig", "fabric", "mixed")


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One size: elements that were wrong, and the mean time and bus bandwidth (NCCL's definition) of a round."""

    size_bytes: int
    wrong_elements: int
    time_us: float
    bus_gb_per_s: float


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the probe printed."""

    world: int
    backend: str
    nccl: str | None
    rows: tuple[Row, ...]


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run: what it told, or why it told nothing (``hung``, or the last lines that it printed)."""

    told: Told | None = None
    hung: bool = False
    last_lines: tuple[str, ...] = ()


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Both runs on these GPUs. ``key`` changes with driver, kernel and links, and then the proof is void."""

    schema: str = "kitctl.collective/1"
    key: str
    gpus: tuple[int, ...]
    links: str | None
    limit_s: float
    at_utc: str
    planned: Trial
    without_p2p: Trial | None
    """The control; a CPU has none."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes, rounds and limits of the proof (``collective.toml``)."""

    sizes_bytes: tuple[int, ...]
    rounds: int
    limit_s: float
    cpu_world: int
    cpu_sizes_bytes: tuple[int, ...]
    shm_size_bytes: int
    nvlink_least_gain: float


def probe_argv(
    image: str,
    script: str,
    *,
    name: str,
    gpus: GpuReservation,
    environment: Mapping[str, str],
    settings: Settings,
) -> tuple[str, ...]:
    """The short container: no network, the reserved GPUs alone, the stack's NCCL variables."""
    nccl = {key: value for key, value in environment.items() if key.startswith(("NCCL_", "CUDA_DEVICE"))}
    words = [word for key, value in sorted((nccl | _INSIDE).items()) for word in ("-e", f"{key}={value}")]
    fixed = ("docker", "run", "--rm", "--name", name, "--pull", "never", "--network", "none", "--init")
    room = ("--shm-size", str(settings.shm_size_bytes), "--entrypoint", "python3")
    return (*fixed, *room, *reservation_words(gpus), *words, image, "-c", script, job_text(gpus, settings))


def reservation_words(gpus: GpuReservation) -> tuple[str, ...]:
    """``docker run``'s words for the reservation."""
    if gpus.driver is GpuDriver.NVIDIA:
        return ("--gpus", f'"device={",".join(gpus.ids)}"')
    if gpus.driver is GpuDriver.CDI:
        return tuple(word for name in gpus.ids for word in ("--device", name))
    return ()


def job_text(gpus: GpuReservation, settings: Settings) -> str:
    """The probe's one argument."""
    on_gpu = gpus.driver is not GpuDriver.NONE
    job = {
        "world": len(gpus.ids) if on_gpu else settings.cpu_world,
        "backend": "nccl" if on_gpu else "gloo",
        "sizes_bytes": list(settings.sizes_bytes if on_gpu else settings.cpu_sizes_bytes),
        "rounds": settings.rounds,
        "timeout_s": settings.limit_s,
    }
    return json.dumps(job)


def read_trial(stdout: str, stderr: str, *, exit_code: int | None) -> Trial:
    """One run. ``exit_code`` is ``None`` when it gave no answer in time."""
    lines = [line.removeprefix(MARK) for line in stdout.splitlines() if line.startswith(MARK)]
    if exit_code == 0 and lines:
        return Trial(told=msgspec.json.decode(lines[-1], type=Told))
    said = [line for line in f"{stdout}\n{stderr}".splitlines() if line.strip()]
    return Trial(hung=exit_code is None, last_lines=tuple(said[-8:]))


def judge_proof(proof: Proof, *, book: FindingBook, settings: Settings) -> tuple[Finding, ...]:
    """What the proof says: wrong answers, hangs and failures block; P2P slower than host memory warns."""
    found = _judge_trial(proof, proof.planned, "as planned", book)
    if proof.without_p2p is None:
        lines = _row_lines("gloo", proof.planned)
        return tuple(found) or (book.tell("collective-proven-on-cpu", *lines, where="collective"),)
    found += _judge_trial(proof, proof.without_p2p, "off", book)
    if found:
        return tuple(found)
    p2p, host = bandwidth(proof.planned), bandwidth(proof.without_p2p)
    least = settings.nvlink_least_gain if proof.links == LinkClass.NVLINK_FULL else 1.0
    evidence = (*_row_lines("as planned", proof.planned), *_row_lines("P2P off", proof.without_p2p))
    is_slow = proof.links is not None and p2p < host * least
    code = "p2p-slower-than-host-memory" if is_slow else "collective-proven"
    told = book.tell(
        code, *evidence, where="collective", gpus=_listed(proof.gpus), p2p=f"{p2p:.1f}", host=f"{host:.1f}"
    )
    return (told,)


def _judge_trial(proof: Proof, trial: Trial, mode: str, book: FindingBook) -> list[Finding]:
    if trial.told is None:
        code, lines = "collective-hangs" if trial.hung else "collective-fails", trial.last_lines
    else:
        wrong = [row for row in trial.told.rows if row.wrong_elements]
        lines = tuple(f"{row.wrong_elements} wrong elements in {row.size_bytes} bytes" for row in wrong)
        code = "collective-wrong-answer" if wrong else ""
    limit, gpus = f"{proof.limit_s:g}", _listed(proof.gpus)
    return [book.tell(code, *lines, where="collective", gpus=gpus, mode=mode, limit=limit)] if code else []


def bandwidth(trial: Trial) -> float:
    """Bus bandwidth at the largest size in GB/s; 0 without an answer."""
    rows = trial.told.rows if trial.told else ()
    return max(rows, key=lambda row: row.size_bytes).bus_gb_per_s if rows else 0.0


def _row_lines(mode: str, trial: Trial) -> tuple[str, ...]:
    rows = trial.told.rows if trial.told else ()
    return tuple(f"{mode}: {r.size_bytes} bytes in {r.time_us:g} us, {r.bus_gb_per_s:g} GB/s" for r in rows)


def proof_key(facts: HostFacts, gpus: Sequence[int]) -> str:
    """Over what a proof holds for: driver, kernel and its command line, the GPUs and their links."""
    topology = facts.topology
    seen: dict[str, Any] = {
        "driver": facts.driver.version if facts.driver else None,
        "kernel": facts.kernel,
        "command_line": facts.kernel_command_line,
        "gpus": [[gpu.index, gpu.uuid, gpu.pci_bus_id] for gpu in facts.gpus or () if gpu.index in gpus],
        "links": [list(row) for row in topology.links] if topology else None,
        "acs": list(facts.acs_redirect_bridges or ()),
    }
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:24]


def hindrances(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Blocking findings that would make a proof fail by themselves."""
    return tuple(found for found in blocking(findings) if found.code.startswith(_HINDER))


def _listed(gpus: Sequence[int]) -> str:
    return ",".join(str(gpu) for gpu in gpus) or "none (CPU)"
