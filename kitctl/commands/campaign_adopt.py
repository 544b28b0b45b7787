"""``kitctl campaign adopt``: the winner of a concurrency band becomes a stack of the user's."""

from __future__ import annotations

import argparse

from kitctl.campaign.adopt import adopted_text, pick_band
from kitctl.campaign.recommend import recommendation_line
from kitctl.campaign.report import report_of
from kitctl.commands.campaign_options import read_state
from kitctl.edge.environment import config_dir
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import KitTexts, named_texts, resolve_stack
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
    """Write the stack. Raises KitError ``no-recommendation`` (exit 2) or ``stack-exists`` (exit 3)."""
    campaign, state = read_state(args.campaign)
    assert state.begun is not None
    report = report_of(state)
    tables = [found for found in report.tables if args.load in (None, found.load)]
    bands = tables[0].recommendation if tables else ()
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
    own = named_texts(texts, "stacks")[arm.stack]
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


def write_stack(name: str, text: str, texts: KitTexts, *, replace: bool) -> str:
    """The file, after it was read back as a stack; one that says something else is overwritten only when asked."""
    path = f"{config_dir()}/stacks/{name}.yaml"
    there = read_text_if_there(path)
    if there not in (None, text) and not replace:
        raise KitError(
            "stack-exists",
            f"there is a stack {name} of yours already",
            evidence=(path,),
            remedy="give another name with --as, or --replace",
            exit_code=Exit.REFUSED,
        )
    resolve_stack(KitTexts(kit=texts.kit, user={**texts.user, f"stacks/{name}.yaml": text}), name)
    write_atomic(path, text)
    return path
