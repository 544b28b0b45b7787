"""Which numbers of a run does monitoring see?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kitctl.watch.run_record import Outcome, RunRecord


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One gauge: its name, what it is, labels beside stack and project, value."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str]


def run_samples(record: RunRecord) -> Iterator[Sample]:
    """The gauges of ``record``; what is not known yet is left out."""
    for phase in record.phases:
        said = "Seconds that a phase of the start took."
        yield Sample(
            name="kitctl_phase_seconds", help=said, value=phase.seconds, labels={"phase": phase.name}
        )
    for outcome in Outcome:
        is_it = float(record.outcome is outcome)
        said = "Where the run stands: 1 for its outcome, 0 for the others."
        yield Sample(name="kitctl_run_outcome", help=said, value=is_it, labels={"outcome": outcome.value})
    named = {
        "run": record.id,
        "plan": record.fingerprint,
        "kitctl": record.kitctl,
        "model": record.served_model,
    }
    yield Sample(
        name="kitctl_run_info", help="The run, its plan and what it serves.", value=1.0, labels=named
    )
    times = {"started": record.started, "ready": record.ready, "ended": record.ended}
    for word, stamp in times.items():
        if stamp is not None:
            said = f"When the run {'was' if word == 'ready' else 'has'} {word}, in seconds since the epoch."
            value = datetime.fromisoformat(stamp).timestamp()
            yield Sample(name=f"kitctl_{word}_timestamp_seconds", help=said, value=value, labels={})
    if record.kv_tokens is not None:
        said = "Tokens that the KV cache holds, by the engine's log."
        yield Sample(name="kitctl_kv_tokens", help=said, value=float(record.kv_tokens), labels={})
    yield from _expected(record)


def _expected(record: RunRecord) -> Iterator[Sample]:
    """The accept lengths that the stack expects of its drafter."""
    expect = record.plan.get("settings", {}).get("expect", {})
    for bound in ("min", "max"):
        value = expect.get(f"accept_length_{bound}")
        if value is not None:
            said = f"Accept length that the stack expects at {'least' if bound == 'min' else 'most'}."
            yield Sample(name=f"kitctl_accept_length_{bound}", help=said, value=float(value), labels={})
