"""``kitctl campaign run``: which campaign, is it a new one, can its stacks run? Then it is driven to its end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from kitctl import __version__
from kitctl.campaign.arms import Arm, expand_arms
from kitctl.campaign.events import Begun
from kitctl.campaign.schedule import order_arms
from kitctl.campaign.state import State, fold, reopened
from kitctl.commands.campaign_check import (
    check_arms,
    require_all,
    require_datasets,
    require_room,
    without_verdicts,
)
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
from kitctl.host.facts import HostFacts
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
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--resume", action="store_true", help="refuse to begin a new one")
    start.add_argument("--fresh", action="store_true", help="begin anew; the earlier one is set aside")
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
    with project_lock(f"campaign-{name}", verb=f"campaign run {args.file}", dry_run=args.dry_run):
        digest = campaign_digest(campaign, rehearse=rehearse)
        earlier = _earlier(args, folder, digest)
        require_datasets(campaign)
        stacks = {name: resolve_stack(texts, name).stack for name in campaign.stacks}
        arms = expand_arms(
            campaign, drafters={name: stack.drafter is not None for name, stack in stacks.items()}
        )
        on_gpus = not rehearse and any(stack.image.stage == GPU_STAGE for stack in stacks.values())
        tries = campaign.failure.tries if campaign.failure.then is Then.REMEDY else 0
        starting = starting_of(args, name=name, rehearse=rehearse, tries=tries)
        facts = _read_host(arms, starting, trials=on_gpus, context=context)
        checked = check_arms(arms, starting, facts=facts, context=context)
        if left_up(starting):
            checked = without_verdicts(checked)
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
            return dry_run_result(begun, checked, earlier)
        if args.fresh and has_journal(folder):
            set_aside(folder)
        write_atomic(f"{folder}/facts.json", msgspec.json.encode(encode_facts(facts)).decode())
        return drive(begun, checked, starting, folder=folder, retry_holes=args.retry_holes, context=context)


def _read_host(arms: Sequence[Arm], starting: Starting, *, trials: bool, context: Context) -> HostFacts:
    """The facts that every plan is judged against."""
    context.say(f"{starting.name}: checking the plans of {len(arms)} configurations together")
    return read_facts(None, context, disks=(starting.store or default_store(),), trials=trials)


def _earlier(args: argparse.Namespace, folder: str, digest: str) -> State:
    """What was done of this campaign before, unless that will be set aside. Raises KitError (exit 2) for another."""
    if not has_journal(folder):
        if args.resume:
            raise KitError(
                "nothing-to-resume",
                f"no campaign was begun in {folder}",
                remedy=f"kitctl campaign run {args.file}",
                exit_code=Exit.USAGE,
            )
        return State()
    if args.fresh:
        return State()
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
    state = fold(entries)
    return reopened(state) if args.retry_holes else state
