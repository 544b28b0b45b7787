"""What does ``kitctl doctor`` print?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kitctl.finding import Finding, finding_lines
from kitctl.host.facts import HostFacts
from kitctl.host.facts_json import encode_facts
from kitctl.host.facts_text import facts_lines

SCHEMA = "kitctl.doctor/1"


def doctor_data(facts: HostFacts, findings: Sequence[Finding]) -> dict[str, Any]:
    """What ``--json`` prints; ``--facts`` reads it back."""
    rows = [msgspec.to_builtins(finding) for finding in findings]
    return {"schema": SCHEMA, "facts": encode_facts(facts), "findings": rows}


def doctor_lines(facts: HostFacts, findings: Sequence[Finding]) -> list[str]:
    """The facts, then the findings, worst first, or that there are none."""
    verdict = finding_lines(findings) if findings else ["nothing stands in the way"]
    return [*facts_lines(facts), "", *verdict]
