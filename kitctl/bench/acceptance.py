"""How many tokens does a verify step bring? Per-request counts of the engine into lengths, histograms and verdicts.

Fields of ``meta_info``: SGLang 0.5.16 ``/generate`` (0.5.11 names in brackets): ``spec_verify_ct``,
``spec_num_correct_drafts`` (``spec_accepted_drafts``), ``spec_num_proposed_drafts`` (``spec_proposed_drafts``),
``spec_correct_drafts_histogram`` (``spec_accept_histogram``), whose index is the number of drafts taken.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kitctl.bench.answers import Record
from kitctl.bench.failed import too_many_failed
from kitctl.bench.prompts import Prompt
from kitctl.bench.statistics import mean, percentile
from kitctl.finding import Finding, Severity

DEFINITION = (
    "accept length: generated tokens / verify steps, pooled over all requests. A step's own (bonus) token counts, "
    "so 1.0 means that no draft was ever taken and the drafter's block size is the most. SGLang counts a request's "
    "first token, which comes from the prefill, among its tokens and cuts its last block short."
)
USELESS_LENGTH = 1.2
WEAK_FIRST_POSITION = 0.5
RESAMPLES = 1000


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One request: its tokens, verify steps, drafts taken and proposed, and how often k drafts were taken."""

    id: str
    category: str
    tokens: int
    steps: int
    taken: int | None = None
    proposed: int | None = None
    histogram: tuple[int, ...] = ()


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Some requests together. ``accept_length_interval``: 95 %, bootstrap over requests."""

    requests: int
    tokens: int
    verify_steps: int
    accept_length: float
    accept_length_interval: tuple[float, float] | None
    accept_length_request_mean: float


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """Acceptance at one concurrency.

    ``accept_length_by_drafts``: 1 + drafts taken / verify steps, free of first token and cut blocks.
    ``position_rates``: how often the draft at each place of the block was taken. ``counter_accept_length``: the
    difference of the server's counters over the same requests.
    """

    concurrency: int
    overall: Group
    categories: dict[str, Group]
    errors: int
    accept_length_by_drafts: float | None
    accept_rate: float | None
    histogram: tuple[int, ...]
    position_rates: tuple[float, ...]
    counter_accept_length: float | None = None
    error_kinds: dict[str, int] = {}


def sample_of(record: Record, prompt: Prompt) -> Sample | None:
    """A request's counts; ``None`` when it failed or the server ran no verify step for it."""
    meta = record.meta or {}
    steps = _whole(meta, "spec_verify_ct")
    tokens = record.output_tokens or _whole(meta, "completion_tokens")
    if record.error is not None or not steps or not tokens:
        return None
    histogram = meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram") or ()
    return Sample(
        id=prompt.id,
        category=prompt.category,
        tokens=tokens,
        steps=steps,
        taken=_whole(meta, "spec_num_correct_drafts", "spec_accepted_drafts"),
        proposed=_whole(meta, "spec_num_proposed_drafts", "spec_proposed_drafts"),
        histogram=tuple(int(count) for count in histogram),
    )


def _whole(meta: Mapping[str, Any], *names: str) -> int | None:
    return next((int(meta[name]) for name in names if isinstance(meta.get(name), int | float)), None)


def acceptance_of(
    samples: Sequence[Sample],
    *,
    concurrency: int,
    error_kinds: Mapping[str, int] | None = None,
    counted: float | None = None,
) -> Acceptance:
    """Pool the requests of one concurrency. ``error_kinds``: failed requests by kind. ``counted``: the length by the
    server's counters."""
    kinds = dict(error_kinds or {})
    steps = sum(sample.steps for sample in samples)
    taken = [sample.taken for sample in samples if sample.taken is not None]
    proposed = sum(sample.proposed or 0 for sample in samples)
    histogram = _sum_histograms(sample.histogram for sample in samples)
    names = sorted({sample.category for sample in samples})
    return Acceptance(
        concurrency=concurrency,
        overall=group_of(samples),
        categories={name: group_of([s for s in samples if s.category == name]) for name in names},
        errors=sum(kinds.values()),
        error_kinds=kinds,
        accept_length_by_drafts=1 + sum(taken) / steps if taken and len(taken) == len(samples) else None,
        accept_rate=sum(taken) / proposed if taken and proposed else None,
        histogram=histogram,
        position_rates=position_rates(histogram),
        counter_accept_length=counted,
    )


def group_of(samples: Sequence[Sample]) -> Group:
    """Pooled length, its interval, and the mean of per-request lengths."""
    tokens, steps = sum(sample.tokens for sample in samples), sum(sample.steps for sample in samples)
    return Group(
        requests=len(samples),
        tokens=tokens,
        verify_steps=steps,
        accept_length=tokens / steps,
        accept_length_interval=_ratio_interval([(sample.tokens, sample.steps) for sample in samples]),
        accept_length_request_mean=mean([sample.tokens / sample.steps for sample in samples]),
    )


def _ratio_interval(pairs: Sequence[tuple[int, int]]) -> tuple[float, float] | None:
    if len(pairs) < 2:
        return None
    rng = random.Random(len(pairs))
    ratios = []
    for _ in range(RESAMPLES):
        drawn = rng.choices(pairs, k=len(pairs))
        ratios.append(sum(tokens for tokens, _ in drawn) / sum(steps for _, steps in drawn))
    ratios.sort()
    return percentile(ratios, 0.025), percentile(ratios, 0.975)


def _sum_histograms(histograms: Iterable[Sequence[int]]) -> tuple[int, ...]:
    total: list[int] = []
    for histogram in histograms:
        total.extend([0] * (len(histogram) - len(total)))
        for place, count in enumerate(histogram):
            total[place] += count
    return tuple(total)


def position_rates(histogram: Sequence[int]) -> tuple[float, ...]:
    """For each place of the block, the share of steps in which its draft was taken (and all before it)."""
    steps = sum(histogram)
    return tuple(sum(histogram[place:]) / steps for place in range(1, len(histogram))) if steps else ()


def judge(found: Acceptance, *, least: float | None = None) -> tuple[Finding, ...]:
    """What is wrong with the drafter, if anything. ``least``: a length below which the gate fails."""
    length = found.overall.accept_length_interval or (found.overall.accept_length,) * 2
    findings = _failures(found)
    if length[1] < USELESS_LENGTH:
        findings.append(_useless(found))
    elif found.position_rates and found.position_rates[0] < WEAK_FIRST_POSITION:
        findings.append(_weak(found))
    if least is not None and length[1] < least:
        findings.append(_too_short(found, least))
    if found.accept_length_by_drafts is not None and _cut(found) > 0.1:
        findings.append(_short_answers(found))
    return tuple(findings)


def _failures(found: Acceptance) -> list[Finding]:
    reason = too_many_failed(found.error_kinds, found.overall.requests + found.errors)
    return [] if reason is None else [_unanswered(found, reason)]


def _unanswered(found: Acceptance, reason: str) -> Finding:
    return Finding(
        code="requests-failed",
        severity=Severity.BLOCK,
        cause=f"C={found.concurrency}: too many requests failed to believe the length",
        evidence=(reason,),
        remedy="see the server's own log, and measure again once every request is answered",
    )


def _cut(found: Acceptance) -> float:
    """How far the two ways to count lie apart, relative."""
    by_drafts = found.accept_length_by_drafts or found.overall.accept_length
    return abs(by_drafts - found.overall.accept_length) / found.overall.accept_length


def _useless(found: Acceptance) -> Finding:
    return Finding(
        code="drafter-useless",
        severity=Severity.BLOCK,
        cause=f"a verify step brings {found.overall.accept_length:.2f} tokens: drafts are hardly ever taken",
        evidence=(f"drafts taken a step, 0 upward: {list(found.histogram)}",),
        remedy="check that drafter and target are a pair (target layer ids, tokenizer, chat template), "
        "or serve without the drafter",
    )


def _weak(found: Acceptance) -> Finding:
    return Finding(
        code="drafter-weak",
        severity=Severity.WARN,
        cause=f"the first draft of a block is taken in {found.position_rates[0]:.0%} of steps only",
        evidence=(f"rates by place: {', '.join(f'{rate:.2f}' for rate in found.position_rates)}",),
        remedy="measure on the prompts that you serve (--dataset FILE); if it stays so, try another drafter",
    )


def _too_short(found: Acceptance, least: float) -> Finding:
    return Finding(
        code="accept-length-low",
        severity=Severity.BLOCK,
        cause=f"the accept length is {found.overall.accept_length:.2f}, {least:g} is asked for",
        evidence=(f"95 % interval: {found.overall.accept_length_interval}",),
        remedy="use a drafter that fits these prompts, or lower --min-length",
    )


def _short_answers(found: Acceptance) -> Finding:
    return Finding(
        code="answers-too-short",
        severity=Severity.NOTE,
        cause="answers are so short that their first token and cut last block weigh "
        f"{_cut(found):.0%} of the length",
        evidence=(f"{found.overall.tokens / found.overall.requests:.0f} tokens an answer",),
        remedy="ask for longer answers (--output-tokens 512)",
    )
