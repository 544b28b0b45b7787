"""``kitctl campaign adopt``: the winner of a concurrency band becomes a stack of the user's."""

from __future__ import annotations

import argparse

from kitctl.campaign.adopt import adopted_text, pick_band
from kitctl.campaign.recommend import recommendation_line
from kitctl.campaign.report import Report, Table, report_of
from kitctl.commands.campaign_options import read_state
from kitctl.edge.environment import config_dir
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import KitTexts, NamedText, named_texts, resolve_stack
from kitctl.kit.near import did_you_mean
from kitctl.kit.yaml_reader import read_yaml
from kitctl.plan.names import project_word
from kitctl.result import Context, Result


def add_adopt_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``campaign adopt``."""
    parser.add_argument("band", metavar="BAND", help="a recommended band, as 32-128, or a concurrency in it")
    parser.add_argument("--campaign", metavar="NAME", help="which one (default: the latest)")
    parser.add_argument("--load", metavar="NAME", help="which of its tables (default: the first)")
    parser.add_argument("--as", dest="stack_name", metavar="STACK", help="the new stack's name")
    parser.add_argument("--replace", action="store_true", help="overwrite a stack of that name")


def adopt(args: argparse.Namespace, context: Context) -> Result:
    """Write the stack.

    Raises KitError ``no-campaign``, ``unknown-load``, ``no-recommendation``, ``unknown-stack`` (exit 2) or
    ``stack-exists`` (exit 3).
    """
    campaign, state = read_state(args.campaign)
    if state.begun is None:
        raise _nothing_begun(campaign)
    report = report_of(state)
    bands = _table_of(report, args.load).recommendation
    chosen = pick_band(bands, args.band)
    if chosen is None:
        known = ", ".join(f"C={band.band}" for band in bands) or "none"
        known += " (a rehearsal recommends nothing)" if report.rehearsal else ""
        raise KitError(
            "no-recommendation",
            f"campaign {campaign} recommends nothing for {args.band}",
            evidence=(f"its bands: {known}",),
            remedy="kitctl campaign status shows them",
            exit_code=Exit.USAGE,
        )
    arm = next(arm for arm in report.arms if arm.id == chosen.winner)
    texts = load_kit_texts(find_kit(context.kit_dir))
    own = own_stack(texts, arm.stack)
    name = args.stack_name or f"{arm.stack}-c{chosen.band}"
    project_word(name, what="--as")
    text = adopted_text(
        read_yaml(own.text, source=own.source),
        (*arm.words, *state.settings.get(arm.id, ())),
        name=name,
        chosen=chosen,
        campaign=campaign,
        digest=report.digest,
        ups=state.ups.get(arm.id, ()),
    )
    path = write_stack(name, text, texts, replace=args.replace)
    return Result(
        data={
            "schema": "kitctl.campaign.adopt/1",
            "stack": name,
            "file": path,
            "band": chosen.band,
            "winner": arm.id,
        },
        lines=(recommendation_line(chosen), f"wrote {path}", f"  start it: kitctl up {name}"),
    )


def _nothing_begun(campaign: str) -> KitError:
    return KitError(
        "no-campaign",
        f"nothing of campaign {campaign} was written yet",
        remedy="kitctl campaign run FILE, the same as before, begins it",
        exit_code=Exit.USAGE,
    )


def _table_of(report: Report, load: str | None) -> Table:
    """The table of the load, the first one without a name. Raises KitError ``unknown-load`` (exit 2)."""
    found = next((table for table in report.tables if load in (None, table.load)), None)
    if found is not None:
        return found
    known = [table.load for table in report.tables]
    raise KitError(
        "unknown-load",
        f"the campaign has no load {load}",
        evidence=(did_you_mean(load or "", known), f"its loads: {', '.join(known)}"),
        remedy="give --load one of them, or leave it out for the first",
        exit_code=Exit.USAGE,
    )


def own_stack(texts: KitTexts, stack: str) -> NamedText:
    """The stack that an arm is made from. Raises KitError ``unknown-stack`` (exit 2) for one that is gone since."""
    found = named_texts(texts, "stacks").get(stack)
    if found is None:
        raise KitError(
            "unknown-stack",
            f"the stack {stack}, which was measured, is gone",
            remedy="put its file back (kitctl stacks shows what is there), then adopt again",
            exit_code=Exit.USAGE,
        )
    return found


def stack_path(name: str) -> str:
    """Where a stack of the user's lies."""
    return f"{config_dir()}/stacks/{name}.yaml"


def stack_exists(name: str, *, option: str) -> KitError:
    """The error for a stack of the user's that would be overwritten unasked."""
    return KitError(
        "stack-exists",
        f"there is a stack {name} of yours already",
        evidence=(stack_path(name),),
        remedy=f"give another name with {option}, or --replace",
        exit_code=Exit.REFUSED,
    )


def write_stack(name: str, text: str, texts: KitTexts, *, replace: bool) -> str:
    """The file, after it was read back as a stack; one that says something else is overwritten only when asked."""
    path = stack_path(name)
    if read_text_if_there(path) not in (None, text) and not replace:
        raise stack_exists(name, option="--as")
    resolve_stack(KitTexts(kit=texts.kit, user={**texts.user, f"stacks/{name}.yaml": text}), name)
    write_atomic(path, text)
    return path
