"""Which GPUs does a stack get?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, Severity
from kitctl.host.facts import Gpu, HostFacts, Topology
from kitctl.host.topology import best_gpu_set

BUSY_SHARE = 0.02
MOST_GPUS = 1000
_RANGE = re.compile(r"([0-9]{1,3})-([0-9]{1,3})")
_INDEX = re.compile(r"[0-9]{1,3}")


@dataclass(frozen=True, kw_only=True)
class GpuChoice:
    """Ids as they will be reserved (index or UUID), the indices that they mean, and the reason."""

    ids: tuple[str, ...]
    indices: tuple[int, ...]
    reason: str
    findings: tuple[Finding, ...] = ()


def read_gpu_list(text: str) -> tuple[str, ...]:
    """``0,2-4,GPU-…`` -> ids in the order given.

    Raises KitError ``bad-gpus`` (exit 2) for what is neither index, range nor UUID, and for doubles.
    """
    ids: list[str] = []
    for word in [part.strip() for part in text.split(",") if part.strip()]:
        span = _RANGE.fullmatch(word)
        if span and int(span[1]) <= int(span[2]):
            ids += [str(index) for index in range(int(span[1]), int(span[2]) + 1)]
        elif _INDEX.fullmatch(word) or word.startswith(("GPU-", "MIG-")):
            ids.append(word if word.startswith(("GPU-", "MIG-")) else str(int(word)))
        else:
            raise _bad(text, f"{word!r} is neither an index, a range nor a UUID")
    if len(set(ids)) != len(ids) or not ids:
        raise _bad(text, "every GPU may stand once, and at least one must")
    return tuple(ids)


def require_gpu_list(wanted: str | None) -> None:
    """Raises KitError ``bad-gpus`` (exit 2) for a ``--gpus`` that is no list, though no GPU will be reserved."""
    if wanted is not None and wanted != "all":
        read_gpu_list(wanted)


def choose_gpus(facts: HostFacts, *, wanted: str | None, count: int) -> GpuChoice:
    """The GPUs for a stack that uses ``count``: those the user named, else the closest free ones of one model.

    Findings: ``gpus-unknown``, ``gpus-missing``, ``gpu-count-mismatch``, ``gpu-not-there``,
    ``gpu-twice`` (all block).
    """
    if facts.gpus is None:
        reason = facts.unknown.get("gpus", "no probe of the GPUs was made")
        ids = (
            read_gpu_list(wanted)
            if wanted and wanted != "all"
            else tuple(map(str, range(min(count, MOST_GPUS))))
        )
        indices = tuple(int(gpu) for gpu in ids if gpu.isdigit())
        return GpuChoice(ids=ids, indices=indices, reason="facts unknown", findings=(_unknown(reason),))
    if wanted is None:
        chosen, reason = _own_choice(facts.gpus, facts.topology, count)
    elif wanted == "all":
        chosen, reason = [str(gpu.index) for gpu in facts.gpus], "--gpus all"
    else:
        chosen, reason = list(read_gpu_list(wanted)), f"--gpus {wanted}"
    indices, findings = _judge(facts.gpus, chosen, count)
    return GpuChoice(ids=tuple(chosen), indices=indices, reason=reason, findings=findings)


def _own_choice(gpus: Sequence[Gpu], topology: Topology | None, count: int) -> tuple[list[str], str]:
    """Of the largest group of free GPUs of one model, the set with the shortest links; else the first ones."""
    free = [gpu for gpu in gpus if _is_free(gpu)]
    groups = [[gpu.index for gpu in free if gpu.name == name] for name in dict.fromkeys(g.name for g in free)]
    candidates = max(groups, key=len, default=[])
    if len(candidates) >= count and topology is not None and count > 1:
        best = best_gpu_set(topology, count, among=tuple(candidates))
        if best is not None:
            return [str(index) for index in best.gpus], best.reason
    enough = candidates if len(candidates) >= count else [gpu.index for gpu in gpus]
    why = "free ones of one model" if len(candidates) >= count else "GPUs of the host; not enough are free"
    return [str(index) for index in enough[:count]], f"the first {min(count, len(enough))} {why}"


def _is_free(gpu: Gpu) -> bool:
    """No process on it and next to no memory taken (SGLang refuses ranks whose free memory differs by 10 %)."""
    if gpu.processes:
        return False
    if gpu.memory_used_mib is None or gpu.memory_total_mib is None:
        return True
    return gpu.memory_used_mib <= BUSY_SHARE * gpu.memory_total_mib


def _judge(
    gpus: Sequence[Gpu], chosen: Sequence[str], count: int
) -> tuple[tuple[int, ...], tuple[Finding, ...]]:
    by_id = {str(gpu.index): gpu for gpu in gpus} | {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    gone = [wanted for wanted in chosen if wanted not in by_id and not wanted.startswith("MIG-")]
    indices = tuple(by_id[wanted].index for wanted in chosen if wanted in by_id)
    findings: list[Finding] = []
    if gone:
        findings.append(_not_there(gone, gpus))
    elif len(set(indices)) != len(indices):
        findings.append(_twice(chosen, by_id))
    elif len(chosen) != count:
        findings.append(_wrong_count(len(chosen), count, len(gpus)))
    return indices, tuple(findings)


def _unknown(reason: str) -> Finding:
    return Finding(
        code="gpus-unknown",
        severity=Severity.BLOCK,
        cause="this stack needs GPUs and none could be seen on the host",
        evidence=(reason,),
        remedy="run kitctl doctor on the GPU host, or plan for it with --facts FILE, or try --rehearse",
    )


def _not_there(gone: Sequence[str], gpus: Sequence[Gpu]) -> Finding:
    return Finding(
        code="gpu-not-there",
        severity=Severity.BLOCK,
        cause=f"the host has no GPU {', '.join(gone)}",
        evidence=tuple(f"{gpu.index}: {gpu.name} {gpu.uuid or ''}".rstrip() for gpu in gpus),
        remedy="choose from those with --gpus",
    )


def _twice(chosen: Sequence[str], by_id: Mapping[str, Gpu]) -> Finding:
    same = [other for other in chosen if by_id[other].index in [by_id[c].index for c in chosen if c != other]]
    return Finding(
        code="gpu-twice",
        severity=Severity.BLOCK,
        cause=f"--gpus names a GPU twice: {' and '.join(same[:2])} are the same",
        remedy="name each GPU once, by index or by UUID",
    )


def _wrong_count(given: int, needed: int, there: int) -> Finding:
    return Finding(
        code="gpu-count-mismatch",
        severity=Severity.BLOCK,
        cause=f"the stack uses {needed} GPUs (dp * tp * pp) and {given} would be reserved",
        evidence=(f"the host has {there}",),
        remedy=f"name {needed} with --gpus, or change --set parallel.tp to fit",
    )


def _bad(text: str, why: str) -> KitError:
    return KitError(
        "bad-gpus",
        f"--gpus {text}: {why}",
        remedy="write for example --gpus 0-7, --gpus 0,1 or --gpus GPU-<uuid>",
        exit_code=Exit.USAGE,
    )
