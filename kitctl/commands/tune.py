"""``kitctl tune``: a bounded search over a stack's settings for one target, every trial measured and kept."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.bench.points import Goal
from kitctl.campaign.arms import Arm
from kitctl.campaign.schedule import Visit
from kitctl.campaign.search import (
    LOAD,
    Aim,
    Space,
    Target,
    default_space,
    own_settings,
    read_candidates,
    read_vary,
    search_digest,
)
from kitctl.commands.argument_types import positive, positive_number, repeats, seconds, streams
from kitctl.commands.campaign_check import require_datasets
from kitctl.commands.campaign_life import clear_all
from kitctl.commands.campaign_options import Starting, add_start_arguments, starting_of, up_arguments
from kitctl.commands.campaign_visit import Run
from kitctl.commands.planning import Planned, make_plan
from kitctl.commands.preparing import refused_result
from kitctl.commands.tune_report import require_adoptable, tuned_result
from kitctl.commands.tune_session import Search, run_search
from kitctl.edge.campaign_files import campaign_folder, has_journal, journal_path, set_aside
from kitctl.edge.docker_client import require_engine
from kitctl.edge.journal import JournalFile
from kitctl.edge.locks import project_lock
from kitctl.edge.optimizer import require_optimizer
from kitctl.edge.package_data import package_text
from kitctl.edge.signals import outlive_terminal
from kitctl.errors import Exit, KitError
from kitctl.finding import blocking
from kitctl.kit.campaign import Budget, Campaign, CampaignLoad, FailurePolicy, Then
from kitctl.plan.names import project_word
from kitctl.plan.types import GpuDriver
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``tune``."""
    add = parser.add_argument
    add("stack", metavar="STACK", help="a name that 'kitctl stacks' prints")
    add(
        "--for", dest="aim", choices=[str(aim) for aim in Aim], default="throughput", help="what is made best"
    )
    add("--at", type=streams, default=32, metavar="C", help="the concurrency that it is for (default: 32)")
    add("--slo-ttft-ms", type=positive_number, metavar="MS", help="goodput: TTFT at most MS")
    add("--slo-tpot-ms", type=positive_number, metavar="MS", help="goodput: TPOT at most MS")
    add("--vary", action="append", default=[], metavar="PATH=V,V", help="search these values; repeatable")
    add("--trials", type=positive, default=20, metavar="N", help="judge at most N settings (default: 20)")
    add("--repeats", type=repeats, default=3, metavar="N", help="repeats; losing trials stop early (3)")
    add("--time-s", type=seconds, metavar="S", help="end after S seconds of work")
    add("--dataset", default="kit", metavar="SET", help="random, kit, demo, or a file (default: kit)")
    add("--requests", type=positive, default=5, metavar="N", help="requests a stream and repeat (5)")
    add("--output-tokens", type=positive, metavar="N", help="tokens asked for (random: 128, else 512)")
    add("--name", metavar="NAME", help="what the search is called (default: tune-STACK)")
    add("--fresh", action="store_true", help="begin anew; the earlier search is set aside")
    add("--adopt", metavar="NAME", help="write the best settings as a stack of yours")
    add("--replace", action="store_true", help="overwrite a stack of that name")
    add_start_arguments(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Search, or go on with a search that was interrupted. Exit 3 when the stack as it is cannot run."""
    outlive_terminal()
    require_engine()
    require_optimizer()
    name = args.name or f"tune-{args.stack}"
    project_word(name, what="--name" if args.name else "STACK")
    if args.adopt is not None:
        require_adoptable(args.adopt, stack=args.stack, replace=args.replace)
    with project_lock(f"search-{name}", verb=f"tune {args.stack}"):
        starting = starting_of(args, name=name, rehearse=args.rehearse, tries=0)
        planned = make_plan(up_arguments(Arm(id="own", stack=args.stack), starting), context)
        if blocking(planned.plan.findings):
            return refused_result(planned.plan)
        return _search(args, planned, starting, context)


def _search(args: argparse.Namespace, planned: Planned, starting: Starting, context: Context) -> Result:
    """Every trial that is open, and the report. Raises KitError ``other-search`` (exit 2) before any of them."""
    search = _search_of(args, planned)
    campaign = _campaign_of(args, search)
    require_datasets(campaign)
    digest = search_digest(
        planned.plan.stack,
        search.target,
        search.space,
        load=campaign.loads[0],
        repeats=search.repeats,
        rehearse=args.rehearse,
    )
    folder = campaign_folder(starting.name, kind="searches")
    if args.fresh and has_journal(folder):
        set_aside(folder)
    book = JournalFile(journal_path(folder))
    try:
        _require_same(book, digest, starting.name)
        searching = Run(
            campaign=campaign,
            digest=digest,
            visits=(Visit(arm=Arm(id="own", stack=args.stack), round=0, works=()),),
            book=book,
            folder=folder,
            starting=starting,
            context=context,
            told=lambda: None,
        )
        trials = run_search(search, searching)
        clear_all((args.stack,), starting)
        return tuned_result(search, trials, book.state, folder=folder, adopt=args.adopt, context=context)
    finally:
        book.close()


def _search_of(args: argparse.Namespace, planned: Planned) -> Search:
    stack = planned.plan.stack
    goal = Goal(ttft_ms=args.slo_ttft_ms, tpot_ms=args.slo_tpot_ms)
    if args.aim == Aim.GOODPUT and goal == Goal():
        raise KitError(
            "no-goal",
            "goodput needs a service level",
            remedy="give --slo-ttft-ms, --slo-tpot-ms or both",
            exit_code=Exit.USAGE,
        )
    space: Space = read_vary(args.vary) or default_space(
        stack,
        read_candidates(package_text("tune_space.yaml")),
        on_gpus=planned.plan.gpus.driver is not GpuDriver.NONE,
    )
    return Search(
        stack=args.stack,
        target=Target(aim=Aim(args.aim), concurrency=args.at, goal=goal if goal != Goal() else None),
        space=space,
        own=own_settings(stack, space),
        trials=args.trials,
        repeats=args.repeats,
    )


def _campaign_of(args: argparse.Namespace, search: Search) -> Campaign:
    """The search's load, budget and failure policy in the words of a campaign."""
    load = CampaignLoad(
        name=LOAD,
        dataset=args.dataset,
        concurrency=(search.target.concurrency,),
        requests_per_stream=args.requests,
        output_tokens=args.output_tokens,
    )
    return Campaign(
        summary=f"tune {search.stack}",
        stacks=(search.stack,),
        loads=(load,),
        repeats=search.repeats,
        budget=Budget(time_s=args.time_s),
        failure=FailurePolicy(then=Then.SKIP),
    )


def _require_same(book: JournalFile, digest: str, name: str) -> None:
    first = msgspec.to_builtins(book.entries[0].event) if book.entries else {"digest": digest}
    if first.get("digest") != digest:
        raise KitError(
            "other-search",
            f"another search was begun under the name {name}",
            evidence=(
                f"then {first.get('digest')}, now {digest}: other space, target, load, repeats or stack",
            ),
            remedy="give --name NAME for a second one, or --fresh to set the first aside",
            exit_code=Exit.USAGE,
        )
