"""Which campaign is meant, and how are its stacks started? Shared by the campaign verbs and tune."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kitctl.campaign.arms import Arm
from kitctl.campaign.state import State, fold
from kitctl.commands import up
from kitctl.commands.argument_types import port_number
from kitctl.edge.campaign_files import campaign_folder, campaign_names, is_file, journal_path, stem
from kitctl.edge.files import read_text
from kitctl.edge.journal import load_journal
from kitctl.errors import Exit, KitError
from kitctl.kit.campaign import Campaign, read_campaign
from kitctl.kit.catalog import KitTexts, named_texts
from kitctl.kit.near import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Starting:
    """What every start of the campaign's stacks has in common. ``name``: the ``--name`` of its containers."""

    name: str
    rehearse: bool = False
    gpus: str | None = None
    overlay: str | None = None
    add: tuple[str, ...] = ()
    port: int | None = None
    store: str | None = None
    skip: tuple[str, ...] = ()
    tries: int = 0


def add_start_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that hold for every start."""
    start = parser.add_argument_group("starts")
    start.add_argument("--rehearse", action="store_true", help="on the CPU engine with the demo model")
    start.add_argument("--gpus", metavar="LIST", help="GPUs to reserve: 0-7, 4,5, all or UUIDs")
    start.add_argument(
        "--overlay", metavar="NAME", help="the host kind's overlay (default: by the GPUs' links)"
    )
    start.add_argument(
        "--add", action="append", default=[], metavar="NAME", help="an add-on overlay; repeatable"
    )
    start.add_argument(
        "--port", type=port_number, metavar="N", help="port on the host (default: the stack's)"
    )
    start.add_argument("--store", metavar="DIR", help="the model store (default: the Hugging Face cache)")
    start.add_argument(
        "--skip", action="append", default=[], metavar="CODE", help="do not block on this finding"
    )


def starting_of(args: argparse.Namespace, *, name: str, rehearse: bool, tries: int) -> Starting:
    """The options of ``add_start_arguments`` as one value."""
    return Starting(
        name=name,
        rehearse=rehearse,
        gpus=args.gpus,
        overlay=args.overlay,
        add=tuple(args.add),
        port=args.port,
        store=args.store,
        skip=tuple(args.skip),
        tries=tries,
    )


def up_arguments(arm: Arm, starting: Starting, *, more: tuple[str, ...] = ()) -> argparse.Namespace:
    """What ``kitctl up`` would be given for an arm. ``more``: settings that a remedy added."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    up.add_arguments(parser)
    words = [arm.stack, "--name", starting.name, "--replace"]
    words += [word for text in (*arm.words, *more) for word in ("--set", text)]
    words += [word for code in starting.skip for word in ("--skip", code)]
    words += [word for name in starting.add for word in ("--add", name)]
    words += ["--rehearse"] if starting.rehearse else []
    words += ["--auto-remedy", str(starting.tries)] if starting.tries else []
    options = {
        "--gpus": starting.gpus,
        "--overlay": starting.overlay,
        "--port": starting.port,
        "--store": starting.store,
    }
    words += [word for option, value in options.items() if value is not None for word in (option, str(value))]
    args = parser.parse_args(words)
    args.engine_flags = ()
    return args


def find_campaign(file: str, texts: KitTexts) -> tuple[Campaign, str, str]:
    """The campaign in a file, or one of the kit's or the user's by name; its source and its name.

    Raises KitError ``unknown-campaign``, ``bad-yaml`` or ``bad-campaign`` (exit 2).
    """
    if is_file(file):
        return read_campaign(read_text(file), source=file), file, stem(file)
    known = named_texts(texts, "campaigns")
    if file not in known:
        raise KitError(
            "unknown-campaign",
            f"there is no campaign {file}: no such file, and none of the kit's",
            evidence=(did_you_mean(file, list(known)),),
            remedy="give a YAML file, or 'reference' for the kit's own campaign",
            exit_code=Exit.USAGE,
        )
    found = known[file]
    return read_campaign(found.text, source=found.source), found.source, file


def read_state(name: str | None) -> tuple[str, State]:
    """A campaign's name and what its journal tells; without a name the one last written to.

    Raises KitError ``no-campaign`` (exit 2).
    """
    names = campaign_names()
    chosen = name or (names[0] if names else None)
    if chosen is None or chosen not in names:
        raise KitError(
            "no-campaign",
            f"no campaign {chosen} was begun here" if chosen else "no campaign was begun here",
            evidence=(did_you_mean(chosen or "", list(names)),) if names else (),
            remedy="kitctl campaign run FILE",
            exit_code=Exit.USAGE,
        )
    return chosen, fold(load_journal(journal_path(campaign_folder(chosen))).entries)
