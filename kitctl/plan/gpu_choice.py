"""Which GPUs does a stack get?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, Severity
from kitctl.host.facts import Gpu, HostFacts

_RANGE = re.compile(r"^(\d+)-(\d+)$")


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
        span = _RANGE.match(word)
        if span and int(span[1]) <= int(span[2]):
            ids += [str(index) for index in range(int(span[1]), int(span[2]) + 1)]
        elif word.isdigit() or word.startswith(("GPU-", "MIG-")):
            ids.append(word)
        else:
            raise _bad(text, f"{word!r} is neither an index, a range nor a UUID")
    if len(set(ids)) != len(ids) or not ids:
        raise _bad(text, "every GPU may stand once, and at least one must")
    return tuple(ids)


def choose_gpus(facts: HostFacts, *, wanted: str | None, count: int) -> GpuChoice:
    """The GPUs for a stack that uses ``count``: those the user named, else the first of the host.

    Findings: ``gpus-unknown``, ``gpus-missing``, ``gpu-count-mismatch``, ``gpu-not-there`` (all block).
    """
    if facts.gpus is None:
        reason = facts.unknown.get("gpus", "no probe of the GPUs was made")
        ids = read_gpu_list(wanted) if wanted and wanted != "all" else tuple(map(str, range(count)))
        indices = tuple(int(gpu) for gpu in ids if gpu.isdigit())
        return GpuChoice(ids=ids, indices=indices, reason="facts unknown", findings=(_unknown(reason),))
    if wanted is None or wanted == "all":
        chosen = [str(gpu.index) for gpu in facts.gpus]
        chosen = chosen if wanted == "all" else chosen[:count]
        reason = "--gpus all" if wanted else f"the first {count} of the host"
    else:
        chosen, reason = list(read_gpu_list(wanted)), f"--gpus {wanted}"
    indices, findings = _judge(facts.gpus, chosen, count)
    return GpuChoice(ids=tuple(chosen), indices=indices, reason=reason, findings=findings)


def _judge(
    gpus: Sequence[Gpu], chosen: Sequence[str], count: int
) -> tuple[tuple[int, ...], tuple[Finding, ...]]:
    by_id = {str(gpu.index): gpu for gpu in gpus} | {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    gone = [wanted for wanted in chosen if wanted not in by_id and not wanted.startswith("MIG-")]
    indices = tuple(by_id[wanted].index for wanted in chosen if wanted in by_id)
    findings: list[Finding] = []
    if gone:
        findings.append(_not_there(gone, gpus))
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
