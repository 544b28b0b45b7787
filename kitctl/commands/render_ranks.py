"""``kitctl render --to compose --nodes N``: one project a rank, alike but for the rank, for hosts without a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from kitctl.commands.planning import Planned, make_plan
from kitctl.commands.rank_options import MOST_NODES, read_meeting
from kitctl.edge.files import absolute, write_atomic
from kitctl.edge.runs import write_project
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, blocking, finding_lines
from kitctl.plan.ranks import rank_differences
from kitctl.render.compose import plan_json
from kitctl.result import Context, Result


def render_ranks(
    args: argparse.Namespace, context: Context, *, files_of: Callable[[Planned, str, str], dict[str, str]]
) -> Result:
    """Write ``rank-0`` to ``rank-N-1``; exit 3, with the files written, when a finding blocks a start on this host.

    Raises KitError ``hosts-not-described`` (exit 2) when the hosts' meeting point or network device is not named:
    neither can be seen from here.
    """
    _require_described(args)
    folder = absolute(args.output)
    plans = [_plan_rank(args, number, context) for number in range(args.nodes)]
    assert not rank_differences({str(n): plan_json(one.plan) for n, one in enumerate(plans)})
    written: list[str] = []
    for number, planned in enumerate(plans):
        place = f"{folder}/rank-{number}"
        files = files_of(planned, "compose", place)
        if planned.plan.api_key_file:
            write_project(place, files)
        else:
            for name, text in files.items():
                write_atomic(f"{place}/{name}", text)
        written += [f"rank-{number}/{name}" for name in sorted(files)]
    return _result(args, folder, tuple(written), plans[0].plan.findings)


def _plan_rank(args: argparse.Namespace, number: int, context: Context) -> Planned:
    ranked = argparse.Namespace(**{**vars(args), "nnodes": args.nodes, "node_rank": number})
    return make_plan(ranked, context)


def _require_described(args: argparse.Namespace) -> None:
    if args.nodes > MOST_NODES or not args.dist_init_addr or not args.interface:
        raise KitError(
            "hosts-not-described",
            f"projects for 2 to {MOST_NODES} hosts need to know where the ranks meet and by which network device",
            evidence=(f"nodes {args.nodes}, meeting {args.dist_init_addr}, device {args.interface}",),
            remedy="--dist-init-addr ADDR:PORT --interface NAME; kitctl up --nodes finds the device itself",
            exit_code=Exit.USAGE,
        )
    read_meeting(args.dist_init_addr)


def _result(
    args: argparse.Namespace, folder: str, written: tuple[str, ...], findings: tuple[Finding, ...]
) -> Result:
    lines = (
        *finding_lines(findings),
        *(f"{folder}/{name}" for name in written),
        *(f"on host {n}: docker compose up -d in rank-{n}" for n in range(args.nodes)),
    )
    data = {"schema": "kitctl.render/1", "to": "compose", "folder": folder, "files": list(written)}
    data |= {"nodes": args.nodes}
    return Result(data=data, lines=lines, exit=Exit.REFUSED if blocking(findings) else Exit.OK)
