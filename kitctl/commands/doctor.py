"""``kitctl doctor``: every cause of a failed or slow start that the host shows now, with evidence and remedy."""

from __future__ import annotations

import argparse

from kitctl.commands.argument_types import scale
from kitctl.commands.planning import add_plan_arguments, make_plan
from kitctl.commands.proving import earlier_proof, prove
from kitctl.edge.files import read_text, require_place, write_atomic
from kitctl.edge.host_data import load_host_tables
from kitctl.edge.probe_runner import gather_host_facts
from kitctl.edge.store_files import default_store
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, blocking, without_skipped
from kitctl.host.facts import HostFacts
from kitctl.host.facts_json import decode_facts
from kitctl.host.redact import redacted_report
from kitctl.plan.doctor_report import doctor_data, doctor_lines
from kitctl.plan.host_checks import check_host
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``doctor``: those of a plan, with the stack left open."""
    add_plan_arguments(parser, stack_is_optional=True)
    parser.add_argument(
        "--report", metavar="FILE", help="write facts and findings, redacted, for a bug report"
    )
    parser.add_argument(
        "--collective", action="store_true", help="prove all-reduce on the stack's GPUs, with and without P2P"
    )
    parser.add_argument(
        "--timeout-scale", type=scale, default=1.0, metavar="X", help="stretch every probe's time limit"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Facts and findings; exit 3 when one blocks."""
    require_place(args.report)
    facts, findings = examine(args, context)
    if args.report:
        write_atomic(args.report, redacted_report(facts, findings))
        context.say(f"wrote {args.report}; read it before you send it")
    blocked = bool(blocking(findings))
    return Result(
        data=doctor_data(facts, findings),
        lines=tuple(doctor_lines(facts, findings)),
        exit=Exit.REFUSED if blocked else Exit.OK,
    )


def examine(args: argparse.Namespace, context: Context) -> tuple[HostFacts, tuple[Finding, ...]]:
    """The host alone, or with a stack what stands against that stack there."""
    if args.stack is not None:
        planned = make_plan(args, context)
        proven = prove(planned, context) if args.collective else earlier_proof(planned)
        return planned.facts, (*planned.plan.findings, *without_skipped(proven, frozenset(args.skip)))
    if args.collective:
        raise _no_stack()
    disks = (args.store or default_store(),)
    facts = (
        decode_facts(read_text(args.facts), source=args.facts)
        if args.facts
        else gather_host_facts(engine=context.engine, disks=disks, timeout_scale=args.timeout_scale)
    )
    findings = check_host(facts, need=None, tables=load_host_tables())
    return facts, without_skipped(findings, frozenset(args.skip))


def _no_stack() -> KitError:
    return KitError(
        "no-stack",
        "the collective proof is made for a stack: its image, its GPUs, its environment",
        remedy="kitctl doctor --collective STACK",
        exit_code=Exit.USAGE,
    )
