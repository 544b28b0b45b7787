"""Which findings does the plan itself give, without looking at model or host?"""

from __future__ import annotations

from kitctl.finding import Finding, Severity
from kitctl.plan.addons import check_public
from kitctl.plan.types import Plan

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_plan(plan: Plan) -> tuple[Finding, ...]:
    """Findings on the plan's own choices: exposure without a key, and code that a model brings."""
    found = [_exposed(plan), _remote_code(plan)]
    return (*(finding for finding in found if finding is not None), *check_public(plan))


def _exposed(plan: Plan) -> Finding | None:
    if plan.published.bind in LOOPBACK or plan.published.bind.startswith("127.") or plan.api_key_file:
        return None
    return Finding(
        code="exposed-without-key",
        severity=Severity.BLOCK,
        cause=f"the stack would answer anyone who reaches {plan.published.bind}:{plan.published.port}",
        evidence=("no API key is set",),
        remedy="give --api-key-file FILE, or bind to 127.0.0.1",
        where="serve.bind",
    )


def _remote_code(plan: Plan) -> Finding | None:
    target = next((model for model in plan.models if model.role == "target"), None)
    if not plan.stack.engine.trust_remote_code or target is None:
        return None
    if target.commit:
        return Finding(
            code="remote-code",
            severity=Severity.NOTE,
            cause=f"Python code of {target.model} runs in the container, pinned to commit {target.commit[:12]}",
            remedy="read the .py files of that commit, or --set engine.trust_remote_code=false",
            where="engine.trust_remote_code",
        )
    return Finding(
        code="remote-code-unpinned",
        severity=Severity.WARN,
        cause=f"Python code of {target.model} would run, and no commit of it is pinned yet",
        remedy=f"kitctl models lock {target.model}",
        where="engine.trust_remote_code",
    )
