"""``kitctl campaign status``: how far a campaign is, told from its journal while it runs or afterwards."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.campaign.report import report_of
from kitctl.campaign.report_text import report_lines
from kitctl.campaign.schedule import reduced, schedule
from kitctl.campaign.state import State, open_visits
from kitctl.commands.campaign_options import read_state
from kitctl.edge.locks import holder_of
from kitctl.result import Context, Result


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``campaign status``."""
    parser.add_argument("campaign", metavar="NAME", nargs="?", help="which one (default: the latest)")


def show_status(args: argparse.Namespace, context: Context) -> Result:
    """Running, waiting to be resumed, or over; done, open and holes; the report as far as it goes."""
    del context
    name, state = read_state(args.campaign)
    holder = holder_of(f"campaign-{name}")
    lines = [_stand(name, state, holder)]
    data: dict[str, object] = {
        "schema": "kitctl.campaign.status/1",
        "name": name,
        "running": holder is not None,
    }
    if state.begun is not None:
        report = report_of(state)
        lines += report_lines(report)
        data |= {
            "done": sorted(state.done),
            "open": [work for work in _open_works(state)],
            "holes": msgspec.to_builtins(dict(state.holes)),
            "doubles": list(state.doubles),
            "outcome": state.ended,
            "sessions": state.sessions,
            "active_s": round(state.active_s, 1),
            "report": msgspec.to_builtins(report),
        }
    return Result(data=data, lines=tuple(lines))


def _stand(name: str, state: State, holder: str | None) -> str:
    if holder is not None:
        where = f", {state.standing} is up" if state.standing else ""
        return f"{name}: running ({holder}){where}; last entry {state.last_at}"
    if state.begun is None:
        return f"{name}: nothing is written yet; the same 'campaign run' begins it"
    if state.ended is not None:
        return f"{name}: over ({state.ended}) since {state.last_at}"
    return f"{name}: interrupted, last entry {state.last_at}; the same 'campaign run' goes on"


def _open_works(state: State) -> list[str]:
    begun = state.begun
    assert begun is not None
    visits = schedule(reduced(begun.campaign, rehearse=begun.rehearse), begun.arms)
    return [work.key for visit in open_visits(visits, state) for work in visit.works]
