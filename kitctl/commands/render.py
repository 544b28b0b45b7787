"""``kitctl render``: the plan as files that run without kitctl."""

from __future__ import annotations

import argparse

from kitctl.commands.planning import Planned, add_plan_arguments, key_files_of, make_plan
from kitctl.commands.rank_options import add_meeting_arguments
from kitctl.commands.render_kubernetes import (
    add_cluster_arguments,
    refuse_cluster_arguments,
    render_for_cluster,
)
from kitctl.commands.render_ranks import render_ranks
from kitctl.edge.files import absolute, write_atomic
from kitctl.edge.runs import write_project
from kitctl.errors import Exit, KitError
from kitctl.finding import blocking, finding_lines
from kitctl.plan.types import Plan
from kitctl.render.compose import render_compose
from kitctl.render.shell import render_shell, render_systemd
from kitctl.result import Context, Result

TARGETS = ("compose", "shell", "systemd", "kubernetes")
ADDONS_LEFT_OUT = ("shell", "kubernetes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``render``."""
    add_plan_arguments(parser)
    parser.add_argument("--to", choices=TARGETS, default="compose", help="what to write (default: compose)")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write into")
    add_cluster_arguments(parser)
    add_meeting_arguments(parser.add_argument_group("several hosts without a cluster"))


def run(args: argparse.Namespace, context: Context) -> Result:
    """Write the files; exit 3, with the files written, when a finding blocks a start on this host.

    A folder that holds an API key is the user's alone.
    """
    if args.to == "compose" and args.nodes > 1:
        return render_ranks(args, context, files_of=rendered_files)
    planned = make_plan(args, context)
    folder = absolute(args.output)
    if args.to in ADDONS_LEFT_OUT:
        refuse_addon_services(planned.plan, args.to)
    if args.to == "kubernetes":
        return render_for_cluster(args, planned, folder)
    refuse_cluster_arguments(args)
    files = rendered_files(planned, args.to, folder)
    if planned.plan.api_key_file:
        write_project(folder, files)
    else:
        for name, text in files.items():
            write_atomic(f"{folder}/{name}", text)
    findings = planned.plan.findings
    lines = (*finding_lines(findings), *(f"{folder}/{name}" for name in sorted(files)))
    data = {"schema": "kitctl.render/1", "to": args.to, "folder": folder, "files": sorted(files)}
    return Result(data=data, lines=lines, exit=Exit.REFUSED if blocking(findings) else Exit.OK)


def refuse_addon_services(plan: Plan, target: str) -> None:
    """Raises KitError ``addon-needs-compose`` (exit 2) where services beside the engine cannot be written down."""
    if plan.addon_services:
        names = ", ".join(addon.name for addon in plan.addon_services)
        raise KitError(
            "addon-needs-compose",
            f"the services {names} of the add-ons run under compose, not as {target}",
            remedy="leave --add out here; a cluster has its own ingress and monitoring",
            exit_code=Exit.USAGE,
        )


def rendered_files(planned: Planned, target: str, folder: str) -> dict[str, str]:
    """The files of one target by name; ``folder`` (absolute) is where they will lie."""
    plan = planned.plan
    keys = key_files_of(plan)
    overlays = tuple(planned.kit.overlays[name] for name in plan.overlays)
    if target == "shell":
        return render_shell(
            plan, base_environment=planned.kit.base_environment, folder=folder, key_files=keys
        )
    files = render_compose(plan, base=planned.kit.base, overlays=overlays, key_files=keys)
    return files if target == "compose" else render_systemd(plan, files, folder=folder)
