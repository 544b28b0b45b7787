"""Does the engine hold as many KV tokens as was planned?

It starts all the same on a GPU that others have filled (measured on H200, SGLang 0.5.16: 453566 tokens instead of
5483796), and cuts a too large ``--max-total-tokens`` without a word.
"""

from __future__ import annotations

from kitctl.finding import Finding, Severity

FAR_BELOW = 0.7
"""Below this share of what was expected: the memory arithmetic is good to a few percent."""


def judge_capacity(
    tokens: int | None, *, wanted: int | None, planned: int | None, last: int | None
) -> tuple[Finding, ...]:
    """Findings on the KV tokens that the engine reported; ``None`` anywhere is not known.

    ``wanted`` is ``max_total_tokens`` as set, ``planned`` the plan's own computation, ``last`` what the newest run of
    the same stack here had.
    """
    if tokens is None:
        return ()
    found = []
    if wanted is not None and tokens < wanted:
        found.append(_capped(tokens, wanted))
    for name, expected in (("the plan", planned), ("the last run here", last)):
        if expected is not None and tokens < FAR_BELOW * expected:
            found.append(_low(tokens, name, expected))
            break
    return tuple(found)


def _capped(tokens: int, wanted: int) -> Finding:
    return Finding(
        code="kv-tokens-capped",
        severity=Severity.WARN,
        cause=f"{wanted} KV tokens were asked for, and the engine holds {tokens}",
        remedy="lower engine.max_total_tokens, or raise engine.mem_fraction_static",
        evidence=(f"max_total_num_tokens={tokens}",),
        where="engine.max_total_tokens",
    )


def _low(tokens: int, name: str, expected: int) -> Finding:
    return Finding(
        code="kv-capacity-low",
        severity=Severity.WARN,
        cause=f"the engine holds {tokens} KV tokens, {tokens / expected:.0%} of what {name} says ({expected})",
        remedy="see who else holds GPU memory ('kitctl doctor', 'nvidia-smi'), free it, then 'kitctl restart'",
        evidence=(f"max_total_num_tokens={tokens}",),
        where="engine.mem_fraction_static",
    )
