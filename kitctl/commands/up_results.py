"""Say and record how a start ended."""

from __future__ import annotations

import json

import msgspec

from kitctl.commands.canary import CanaryReport
from kitctl.commands.diagnose import was_killed_for_memory
from kitctl.commands.preparing import up_json
from kitctl.commands.starting import Started
from kitctl.edge.failure_book import failure_book
from kitctl.edge.runs import list_records, now_utc, save_record
from kitctl.errors import Exit
from kitctl.finding import Finding, Severity, finding_lines
from kitctl.kit.failures import Weight
from kitctl.kit.overlay import Scope
from kitctl.plan.types import Endpoint, Plan
from kitctl.result import Result
from kitctl.watch.capacity import judge_capacity
from kitctl.watch.diagnose import Diagnosis, diagnose, diagnose_events, diagnose_silence, diagnosis_lines
from kitctl.watch.run_record import Outcome, PhaseTime, RunRecord
from kitctl.watch.start import Verdict


def record_ready(record: RunRecord, started: Started, *, seconds: float) -> RunRecord:
    """The record of a run that has answered; saved."""
    done = msgspec.structs.replace(
        record,
        outcome=Outcome.READY,
        ready=now_utc(),
        kv_tokens=started.kv_tokens,
        phases=(*record.phases, *started.phases, PhaseTime(name="total", seconds=round(seconds, 2))),
    )
    save_record(done)
    return done


def record_failure(record: RunRecord, started: Started) -> RunRecord:
    """The record of a run that failed, with its diagnosis; saved."""
    container = started.container
    found = diagnose_start(started, shm_bytes=record.plan["settings"]["serve"]["shm_size_bytes"])
    failed = msgspec.structs.replace(
        record,
        outcome=Outcome.CRASHED if started.verdict is Verdict.CRASHED else Outcome.FAILED,
        ended=now_utc(),
        phases=(*record.phases, *started.phases),
        exit_code=container.exit_code if container and not container.is_running else None,
        oom_killed=was_killed_for_memory(container) if container else None,
        diagnoses=tuple(msgspec.to_builtins(diagnosis) for diagnosis in found),
    )
    save_record(failed)
    return failed


def diagnose_start(started: Started, *, shm_bytes: int | None = None) -> tuple[Diagnosis, ...]:
    """Why the start failed, by its log and its end; one that stands still without a word is told by its phase."""
    container = started.container
    found = diagnose(
        started.log,
        failure_book(),
        exit_code=container.exit_code if container and not container.is_running else None,
        oom_killed=was_killed_for_memory(container) if container else None,
        restart_count=container.restart_count if container else None,
        shm_bytes=shm_bytes,
        events=started.events,
    )
    if not found and started.verdict is Verdict.CRASHED:
        found = diagnose_events(started.events, failure_book())
    explains = any(diagnosis.severity not in (Weight.NOTE, Weight.DEGRADED) for diagnosis in found)
    if started.verdict is Verdict.CRASHED or explains:
        return found
    code = "load-stalled" if started.verdict is Verdict.STALLED else "not-ready-in-time"
    return (diagnose_silence(code, started.why, phase=started.phase, book=failure_book()), *found)


def record_canary(plan: Plan, record: RunRecord, report: CanaryReport | None) -> RunRecord:
    """The record with what the canary found, or that it was left out, and how much the engine holds; saved."""
    found = {"skipped": True} if report is None else msgspec.to_builtins(report)
    holds = capacity_findings(plan, record)
    done = msgspec.structs.replace(record, canary=found, findings=tuple(map(msgspec.to_builtins, holds)))
    save_record(done)
    return done


def ready_result(plan: Plan, record: RunRecord, started: Started, report: CanaryReport | None) -> Result:
    """Base URL, model name, the answer, and a curl line that gets another.

    Exit 9 when the canary has a finding: the stack stays up, and what it says is not to be trusted.
    """
    answer = started.answer
    assert answer is not None
    findings = report.findings if report else ()
    holds = tuple(msgspec.convert(found, Finding) for found in record.findings)
    lines = [
        *finding_lines((*plan.findings, *holds, *findings)),
        *(f"left out of the rehearsal: {path} ({why})" for path, why in plan.left_out),
        f"{plan.stack.name} answers at {record.url} as model {record.served_model}",
        f"  said: {answer.text.strip()[:200]}",
        f"  try:  {curl_line(plan, record)}",
        *(f"  {one.name}: {endpoint_url(one)}" for one in shown_endpoints(plan)),
        f"  run:  {record.id}",
    ]
    data = up_json(
        plan,
        outcome="ready",
        run=record.id,
        url=record.url,
        model=record.served_model,
        phases=[msgspec.to_builtins(phase) for phase in record.phases],
        answer=answer.text,
        canary=record.canary,
        found=[msgspec.to_builtins(finding) for finding in (*holds, *findings)],
    )
    failed = any(finding.severity is not Severity.NOTE for finding in findings)
    return Result(data=data, lines=tuple(lines), exit=Exit.GATE if failed else Exit.OK)


def shown_endpoints(plan: Plan) -> tuple[Endpoint, ...]:
    """The add-ons' ports that a person opens."""
    return tuple(one for one in plan.endpoints if one.scope is not Scope.ENGINE)


def endpoint_url(one: Endpoint) -> str:
    """Where the add-on's port answers; one for clients speaks TLS."""
    host = f"[{one.bind}]" if ":" in one.bind else one.bind
    return f"{'https' if one.scope is Scope.PUBLIC else 'http'}://{host}:{one.port}"


def capacity_findings(plan: Plan, record: RunRecord) -> tuple[Finding, ...]:
    """What is wrong with the KV tokens of a run that became ready."""
    last = next(
        (
            before.kv_tokens
            for before in list_records()
            if before.fingerprint == record.fingerprint and before.id != record.id and before.kv_tokens
        ),
        None,
    )
    memory = plan.memory or {}
    return judge_capacity(
        record.kv_tokens,
        wanted=plan.stack.engine.max_total_tokens or memory.get("max_total_tokens"),
        planned=memory.get("kv_tokens"),
        last=last,
    )


def silent_result(plan: Plan, record: RunRecord) -> Result:
    """The stack was ready once, runs and does not answer now; it is left as it is: exit 8."""
    lines = (
        f"{plan.stack.name} runs since {record.ready or record.started} and does not answer; it was left running",
        f"  do:   kitctl diagnose {plan.stack.name}, then kitctl restart {plan.stack.name}",
    )
    data = up_json(plan, outcome="silent", run=record.id, url=record.url)
    return Result(data=data, lines=lines, exit=Exit.NOT_READY)


def curl_line(plan: Plan, record: RunRecord) -> str:
    """A line to type; the key is read from its file, never shown."""
    body = json.dumps({"model": record.served_model, "messages": [{"role": "user", "content": "Hello"}]})
    key = f" -H \"Authorization: Bearer $(cat '{plan.api_key_file}')\"" if plan.api_key_file else ""
    return f"curl -s {record.url}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{body}'"


def failed_result(plan: Plan, record: RunRecord, started: Started) -> Result:
    """The diagnosis: exit 7 for a crash, 8 when it was not ready in time."""
    found = tuple(msgspec.convert(diagnosis, Diagnosis) for diagnosis in record.diagnoses)
    what = "crashed while starting" if started.verdict is Verdict.CRASHED else started.why
    code = f" (exit code {record.exit_code})" if record.exit_code is not None else ""
    lines = (
        *diagnosis_lines(found),
        f"{plan.stack.name} {what}{code}; the container was removed, its log is {record.folder}/engine.log",
    )
    data = up_json(plan, outcome=record.outcome.value, run=record.id, diagnoses=list(record.diagnoses))
    exit_code = Exit.CRASHED if started.verdict is Verdict.CRASHED else Exit.NOT_READY
    return Result(data=data, lines=lines, exit=exit_code)
