"""Run the probes on the engine's host, side by side, each with its own time limit; never on another machine.

The engine's address says where: a local socket means here, and anything else is reached by a short container of an
image that the engine already holds (a host that ssh reaches runs kitctl itself: ``commands/remote.py``). GPUs of a
local engine whose host tools are out of reach (kitctl itself in a container) are asked in such a container as well.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from kitctl.edge.docker_client import engine_address
from kitctl.edge.process import run_process
from kitctl.errors import KitError
from kitctl.host.assemble import assemble_facts, first_pass
from kitctl.host.facts import HostFacts
from kitctl.host.probe_script import probe_script, read_probe_script
from kitctl.host.probes import (
    GPU_FIELDS,
    TOOL_MISSING,
    TRIALS,
    Answer,
    Probe,
    detail_probes,
    disk_name,
    disk_probes,
    engine_probes,
    gpu_probes,
    gpu_query,
    gpu_words,
    host_probes,
    trial_probe,
)
from kitctl.host.read_docker import read_images
from kitctl.host.read_smi import unknown_field

_LOCAL = ("unix", "npipe", "fd", "")
_HOST_ROOT = "/host"
_SHELL_SLACK_S = 10
_IMAGES_TRIED = 3
_ASKED_AGAIN = 3


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where host probes run: here, or in containers (``via_container``)."""

    via_container: bool = False

    @property
    def root(self) -> str:
        """Where the host's file system is seen from there."""
        return _HOST_ROOT if self.via_container else ""


def gather_host_facts(
    *, engine: str | None, disks: tuple[str, ...], timeout_scale: float = 1.0, trials: bool = True
) -> HostFacts:
    """All facts of the host that ``engine`` (an address, a context or the one in use) runs on.

    Never raises for a probe: what could not be read is ``None`` with its reason. ``disks`` are paths on that
    host whose free space is wanted. ``trials`` lets short containers settle what no list shows: whether the engine
    gives GPUs and raises limits. ``timeout_scale`` stretches or shrinks every time limit.
    """
    place = _place(engine)
    asked_at_s = time.time()
    with ThreadPoolExecutor(max_workers=1) as beside:
        first = beside.submit(_ask_first, place, disks, timeout_scale)
        answers = _ask(_scaled(engine_probes(), timeout_scale))
        images = [image.reference for image in read_images(_stdout(answers, "images"))][:_IMAGES_TRIED]
        if trials:
            answers |= _ask_trials(images, timeout_scale)
        found = first.result()
    engine_now = assemble_facts(answers, disks=()).engine
    ways = gpu_words(engine_now, may_try=trials or place.via_container)
    disks = (*disks, *((engine_now.root_dir,) if engine_now is not None and engine_now.root_dir else ()))
    where, found = _ask_rest(place, found, disks, images=images, ways=ways, scale=timeout_scale)
    return assemble_facts(answers | found, disks=disks, asked_at_s=asked_at_s, probed_on=where)


def _ask_first(place: _Place, disks: tuple[str, ...], scale: float) -> dict[str, Answer]:
    """What can be asked before the engine has said anything: nothing where only a container reaches the host."""
    if place.via_container:
        return {}
    found = _ask(_scaled((*host_probes(disks), *gpu_probes()), scale))
    return found | _retry_query(found, scale)


def _ask_rest(
    place: _Place,
    found: dict[str, Answer],
    disks: tuple[str, ...],
    *,
    images: Sequence[str],
    ways: Sequence[tuple[str, ...]],
    scale: float,
) -> tuple[str, dict[str, Answer]]:
    """What is asked in a container, if need be, and about the GPUs and processes found; and where it was asked."""
    if place.via_container:
        probes = _scaled((*host_probes(disks, root=place.root), *gpu_probes()), scale)
        return _ask_in_container(probes, images, ways, whole_host=True)
    where = "here"
    if found["smi-query"].is_tool_missing and ways != ((),):
        inside, seen = _ask_in_container(_scaled(gpu_probes(), scale), images, ways, whole_host=False)
        found |= {name: answer for name, answer in seen.items() if answer.exit_code is not None}
        where = f"here, GPUs in {inside}" if seen["smi-query"].ok else where
    unseen = [path for path in disks if disk_name(path) not in found]
    details = _scaled((*detail_probes(*first_pass(found)), *disk_probes(unseen)), scale)
    return where, found | (_ask(details) if details else {})


def _place(engine: str | None) -> _Place:
    address = engine if engine is not None and "://" in engine else None
    if address is None:
        with suppress(KitError):
            address = engine_address()
    parts = urlsplit(address or "")
    return _Place(via_container=parts.scheme not in _LOCAL)


def _scaled(probes: Iterable[Probe], scale: float) -> tuple[Probe, ...]:
    return tuple(replace(probe, timeout_s=probe.timeout_s * scale) for probe in probes)


def _stdout(answers: dict[str, Answer], name: str) -> str:
    return answers[name].stdout if name in answers else ""


def _ask(probes: Sequence[Probe]) -> dict[str, Answer]:
    """Each probe in a thread of its own. A process that not even a kill ends (a hung driver) is left behind."""
    found: dict[str, Answer] = {}

    def ask_one(probe: Probe) -> None:
        found[probe.name] = _ask_one(probe)

    threads = {p.name: threading.Thread(target=ask_one, args=(p,), daemon=True) for p in probes}
    for thread in threads.values():
        thread.start()
    started = time.monotonic()
    for probe in probes:
        threads[probe.name].join(max(0.0, started + probe.timeout_s + 2 - time.monotonic()))
    return {p.name: found.get(p.name) or _late(p) for p in probes}


def _ask_one(probe: Probe) -> Answer:
    started = time.monotonic()
    done = run_process(probe.argv, timeout_s=probe.timeout_s)
    for _ in range(_ASKED_AGAIN):
        left_s = started + probe.timeout_s - time.monotonic()
        if left_s <= 0 or not probe.is_worth_repeating(done.exit_code, done.stderr):
            break
        done = run_process(probe.argv, timeout_s=left_s)
    return Answer(
        argv=done.argv,
        exit_code=done.exit_code,
        stdout=done.stdout,
        stderr=done.stderr,
        failure=f"{probe.argv[0]} {TOOL_MISSING}" if "No such file" in (done.failure or "") else done.failure,
        wall_s=round(time.monotonic() - started, 3),
    )


def _late(probe: Probe) -> Answer:
    return Answer(
        argv=probe.argv,
        exit_code=None,
        failure=f"no answer within {probe.timeout_s:g} s, not even a kill ends it",
    )


def _ask_through(prefix: tuple[str, ...], probes: Sequence[Probe]) -> dict[str, Answer]:
    """All probes by one script through ``prefix``, which ends in a shell that reads it."""
    mark = f"kitctl-{secrets.token_hex(8)}"
    limit_s = max(probe.timeout_s for probe in probes) + _SHELL_SLACK_S
    done = run_process(prefix, timeout_s=limit_s, stdin=probe_script(probes, mark=mark))
    last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.exit_code}"]
    failure = f"{prefix[0]}: {done.failure or last[0]}"
    return read_probe_script(done.stdout, probes, mark=mark, failure=failure)


def _ask_trials(images: Sequence[str], scale: float) -> dict[str, Answer]:
    """Does the engine grant GPUs and limits? Settled by short containers of the smallest local image."""
    if not images:
        return {}
    return _ask(
        _scaled((trial_probe(images[0], words=words, name=name) for name, words in TRIALS.items()), scale)
    )


def _ask_in_container(
    probes: Sequence[Probe],
    images: Sequence[str],
    ways: Sequence[tuple[str, ...]],
    *,
    whole_host: bool,
) -> tuple[str, dict[str, Answer]]:
    """The probes in a short container with the host's GPUs, of the first image that has a shell."""
    shared = ("--pid", "host", "--network", "host", *(("-v", f"/:{_HOST_ROOT}:ro") if whole_host else ()))
    run = ("docker", "run", "--rm", "-i", "--pull", "never", "--tmpfs", "/tmp", *shared, "--entrypoint", "sh")
    missing = {
        p.name: Answer(argv=p.argv, exit_code=None, failure="no local image to ask it in") for p in probes
    }
    where, found = "no container", missing
    for image, words in [(image, words) for image in images for words in ways]:
        where, found = f"a container of {image}", _ask_through((*run, *words, image, "-s"), probes)
        if any(answer.exit_code is not None for answer in found.values()):
            break
    return where, found


def _retry_query(answers: dict[str, Answer], scale: float) -> dict[str, Answer]:
    """Ask for the GPUs again without the fields that this driver's nvidia-smi does not know."""
    fields, answer = list(GPU_FIELDS), answers["smi-query"]
    while (field := unknown_field(answer.stdout + answer.stderr)) in fields and not answer.ok:
        fields.remove(str(field))
        answer = _ask(_scaled((gpu_query(fields),), scale))["smi-query"]
    return {"smi-query": answer}
