"""``kitctl campaign run``: which campaign, is it a new one, can its stacks run? Then it is driven to its end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from kitctl import __version__
from kitctl.campaign.arms import Arm, expand_arms
from kitctl.campaign.events import Begun
from kitctl.campaign.schedule import order_arms
from kitctl.commands.campaign_check import Checked, check_arms, require_all, require_room, without_verdicts
from kitctl.commands.campaign_drive import drive, dry_run_result
from kitctl.commands.campaign_life import left_up
from kitctl.commands.campaign_options import Starting, add_start_arguments, find_campaign, starting_of
from kitctl.commands.planning import read_facts
from kitctl.edge.campaign_files import campaign_folder, has_journal, journal_path, set_aside
from kitctl.edge.docker_client import require_engine
from kitctl.edge.files import write_atomic
from kitctl.edge.journal import load_journal
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.edge.locks import project_lock
from kitctl.edge.signals import outlive_terminal
from kitctl.edge.store_files import default_store
from kitctl.errors import Exit, KitError
from kitctl.host.facts_json import encode_facts
from kitctl.kit.campaign import Then, campaign_digest
from kitctl.kit.catalog import resolve_stack
from kitctl.kit.stack import Image
from kitctl.plan.names import project_word
from kitctl.result import Context, Result

GPU_STAGE = Image().stage


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``campaign run``."""
    parser.add_argument("file", metavar="FILE", help="a campaign file, or the name of one of the kit's")
    parser.add_argument("--name", metavar="NAME", help="what it is called (default: as the file)")
    parser.add_argument("--dry-run", action="store_true", help="check all and print the schedule")
    parser.add_argument("--resume", action="store_true", help="refuse to begin a new one")
    parser.add_argument("--fresh", action="store_true", help="begin anew; the earlier one is set aside")
    parser.add_argument("--retry-holes", action="store_true", help="try again what ended as a hole")
    add_start_arguments(parser)


def run_campaign(args: argparse.Namespace, context: Context) -> Result:
    """Run to the end, or go on where an earlier run of the same command ended."""
    outlive_terminal()
    require_engine()
    texts = load_kit_texts(find_kit(context.kit_dir))
    campaign, source, stem = find_campaign(args.file, texts)
    rehearse = args.rehearse or campaign.rehearse
    name = args.name or (f"{stem}-rehearsal" if rehearse else stem)
    project_word(name, what="--name")
    folder = campaign_folder(name)
    with project_lock(f"campaign-{name}", verb=f"campaign run {args.file}"):
        digest = campaign_digest(campaign, rehearse=rehearse)
        _settle_earlier(args, folder, digest)
        stacks = {name: resolve_stack(texts, name).stack for name in campaign.stacks}
        arms = expand_arms(
            campaign, drafters={name: stack.drafter is not None for name, stack in stacks.items()}
        )
        on_gpus = not rehearse and any(stack.image.stage == GPU_STAGE for stack in stacks.values())
        tries = campaign.failure.tries if campaign.failure.then is Then.REMEDY else 0
        starting = starting_of(args, name=name, rehearse=rehearse, tries=tries)
        checked = _check(arms, starting, args.store, folder=folder, trials=on_gpus, context=context)
        require_room(campaign, checked)
        require_all(campaign, checked)
        begun = Begun(
            name=name,
            digest=digest,
            rehearse=rehearse,
            campaign=campaign,
            arms=order_arms(campaign, arms, checked.neighbours),
            kitctl=__version__,
            source=source,
        )
        if args.dry_run:
            return dry_run_result(begun, checked)
        return drive(begun, checked, starting, folder=folder, retry_holes=args.retry_holes, context=context)


def _check(
    arms: Sequence[Arm], starting: Starting, store: str | None, *, folder: str, trials: bool, context: Context
) -> Checked:
    """Every plan against the same facts, which are kept beside the journal."""
    context.say(f"{starting.name}: checking the plans of {len(arms)} configurations together")
    disks = (store or default_store(),)
    facts = read_facts(None, context, disks=disks, trials=trials)
    path = f"{folder}/facts.json"
    write_atomic(path, msgspec.json.encode(encode_facts(facts)).decode())
    checked = check_arms(arms, starting, facts=path, context=context)
    return checked if not left_up(starting) else without_verdicts(checked)


def _settle_earlier(args: argparse.Namespace, folder: str, digest: str) -> None:
    """Set an earlier campaign aside, or see that it is this one. Raises KitError (exit 2)."""
    if not has_journal(folder):
        if args.resume:
            raise KitError(
                "nothing-to-resume",
                f"no campaign was begun in {folder}",
                remedy=f"kitctl campaign run {args.file}",
                exit_code=Exit.USAGE,
            )
        return
    if args.fresh and not args.dry_run:
        set_aside(folder)
        return
    entries = load_journal(journal_path(folder)).entries
    first = entries[0].event if entries else None
    if isinstance(first, Begun) and first.digest != digest:
        raise KitError(
            "other-campaign",
            f"another campaign was begun under the name {first.name}",
            evidence=(f"then {first.digest}, now {digest}: other stacks, loads, repeats or settings",),
            remedy="give --name NAME for a second one, or --fresh to set the first aside",
            exit_code=Exit.USAGE,
        )
