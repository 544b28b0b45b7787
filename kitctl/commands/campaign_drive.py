"""Drive a campaign from its first entry to its report, or say beforehand what it would do."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from kitctl import __version__
from kitctl.campaign.events import Begun, Ended, Hole, Reason, Reopened, Session
from kitctl.campaign.forecast import Forecast, LoadTime, duration_text, forecast, load_time_now
from kitctl.campaign.report import Report
from kitctl.campaign.schedule import Kind, Visit, reduced, schedule
from kitctl.campaign.state import State, is_open, open_visits
from kitctl.commands.campaign_check import Checked, published_rates
from kitctl.commands.campaign_life import clear_all
from kitctl.commands.campaign_options import Starting
from kitctl.commands.campaign_output import write_report
from kitctl.commands.campaign_visit import Run, StoppedError, visit_arm
from kitctl.edge.campaign_files import journal_path
from kitctl.edge.journal import JournalFile
from kitctl.errors import Exit
from kitctl.result import Context, Result


def drive(
    begun: Begun,
    checked: Checked,
    starting: Starting,
    *,
    folder: str,
    retry_holes: bool,
    context: Context,
) -> Result:
    """Measure all that is open, visit after visit, and report. A campaign that is complete is only reported."""
    book = JournalFile(journal_path(folder))
    try:
        begun = _open_book(book, begun, checked, retry_holes=retry_holes)
        campaign = reduced(begun.campaign, rehearse=begun.rehearse)
        visits = schedule(campaign, begun.arms)
        run = Run(
            campaign=campaign,
            digest=begun.digest,
            visits=visits,
            book=book,
            folder=folder,
            starting=starting,
            context=context,
            told=lambda: context.say(_how_far(begun, visits, book.state, checked)),
        )
        for line in _schedule_lines(begun, checked, book.state):
            context.say(line)
        code = _visit_all(run)
        report, lines = write_report(book.state, folder)
    finally:
        book.close()
    return _result(report, lines, folder, code)


def _open_book(book: JournalFile, begun: Begun, checked: Checked, *, retry_holes: bool) -> Begun:
    """The first entries of this session; what the plans say cannot run becomes holes at once."""
    earlier = book.state.begun
    if earlier is not None:
        begun = msgspec.structs.replace(begun, arms=earlier.arms)
    visits = schedule(reduced(begun.campaign, rehearse=begun.rehearse), begun.arms)
    again = retry_holes and bool(book.state.holes)
    if earlier is not None and (again or open_visits(visits, book.state)):
        book.append(Session(kitctl=__version__))
    if earlier is None or earlier.campaign != begun.campaign:
        book.append(begun)
    if earlier is None:
        book.append(Session(kitctl=__version__))
    if again:
        book.append(Reopened())
    for works, reason in _known_holes(begun, visits, checked):
        still = tuple(work for work in works if is_open(work, book.state))
        if still:
            book.append(Hole(works=still, reason=reason))
    return begun


def _known_holes(
    begun: Begun, visits: tuple[Visit, ...], checked: Checked
) -> list[tuple[tuple[str, ...], Reason]]:
    """Works that the checks alone rule out."""
    found = []
    for arm in begun.arms:
        mine = [work for visit in visits if visit.arm.id == arm.id for work in visit.works]
        if arm.id in checked.blocked:
            found.append((tuple(work.key for work in mine), checked.blocked[arm.id]))
            continue
        left = dict(checked.planned[arm.id].plan.left_out)
        if "drafter" in left:
            keys = tuple(work.key for work in mine if work.kind in (Kind.ACCEPT, Kind.PARITY))
            reason = Reason(
                code="left-out",
                cause=f"a rehearsal leaves the drafter out: {left['drafter']}",
                remedy="run the campaign on a host with GPUs",
            )
            found.append((keys, reason))
    return found


def _visit_all(run: Run) -> Exit:
    """All visits; how the campaign ends goes into the journal. An interrupt or a lost engine leaves it open."""
    code = Exit.OK
    left = open_visits(run.visits, run.book.state)
    try:
        for visit in left:
            visit_arm(visit, run)
    except StoppedError as stopped:
        code = stopped.code
    still = open_visits(run.visits, run.book.state)
    outcome = "stopped" if code is not Exit.OK else "time-budget" if still else "complete"
    if left or run.book.state.standing:
        clear_all(tuple(dict.fromkeys(visit.arm.stack for visit in run.visits)), run.starting)
    if run.book.state.ended != outcome:
        run.book.append(Ended(outcome=outcome))
    return code


def _result(report: Report, lines: tuple[str, ...], folder: str, code: Exit) -> Result:
    """Exit 0 with every cell measured or reasoned; 9 for a broken gate or spent time; 3 when nothing ran."""
    if code is Exit.OK and report.outcome == "complete" and report.done == 0:
        code = Exit.REFUSED
    if code is Exit.OK and (report.broken_gates or report.outcome == "time-budget"):
        code = Exit.GATE
    data = {**msgspec.to_builtins(report), "folder": folder}
    return Result(data=data, lines=lines, exit=code)


def remaining(begun: Begun, state: State, loads: dict[str, LoadTime]) -> Forecast:
    """How long what is open will take."""
    campaign = reduced(begun.campaign, rehearse=begun.rehearse)
    seen = {arm.id: load_time_now(loads[arm.id], state=state, arm=arm.id) for arm in begun.arms}
    visits = open_visits(schedule(campaign, begun.arms), state)
    published = () if begun.rehearse else published_rates()
    return forecast(visits, campaign=campaign, state=state, loads=seen, published=published)


def _how_far(begun: Begun, visits: tuple[Visit, ...], state: State, checked: Checked) -> str:
    works = sum(len(visit.works) for visit in visits)
    found = remaining(begun, state, dict(checked.loads))
    holes = f", {len(state.holes)} holes" if state.holes else ""
    return f"{begun.name}: {len(state.done)} of {works} works done{holes}; {left_text(found)}"


def left_text(found: Forecast) -> str:
    """``about 2 h 10 min left, 12 works of it guessed``."""
    guessed = f", {found.guessed} works of it guessed from the slowest rate" if found.guessed else ""
    return f"about {duration_text(found.seconds)} left{guessed}"


def _schedule_lines(begun: Begun, checked: Checked, state: State) -> list[str]:
    """What will be done in which order, what cannot be and why, what must be fetched and built first."""
    visits = open_visits(schedule(reduced(begun.campaign, rehearse=begun.rehearse), begun.arms), state)
    lines = [f"{arm}: cannot run: {reason.cause} ({reason.code})" for arm, reason in checked.blocked.items()]
    lines += [
        f"{work}: {reason.cause} ({reason.code})"
        for work, reason in state.holes.items()
        if reason.code == "left-out"
    ]
    lines += [f"fetch first: {model}, {size / 1e9:.1f} GB" for model, size in checked.missing.items()]
    lines += [f"build first: {image}" for image in checked.builds]
    for number, visit in enumerate((v for v in visits if v.arm.id not in checked.blocked), start=1):
        load = checked.loads[visit.arm.id]
        lines.append(
            f"{number:3}. {visit.arm.id}: load about {duration_text(load.seconds)} (by {load.by}), "
            f"then {_works_text(visit)}"
        )
    return lines


def _works_text(visit: Visit) -> str:
    kinds = [str(work.kind) for work in visit.works if work.kind is not Kind.BENCH]
    points = [work for work in visit.works if work.kind is Kind.BENCH]
    loads = dict.fromkeys(work.load for work in points)
    for load in loads:
        levels = sorted({work.concurrency or 0 for work in points if work.load == load})
        count = sum(work.load == load for work in points)
        kinds.append(f"{load} at C={','.join(map(str, levels))} ({count} repeats)")
    return ", ".join(dict.fromkeys(kinds))


def dry_run_result(begun: Begun, checked: Checked, earlier: State) -> Result:
    """The schedule of what ``earlier`` sessions left open, and its estimate: exit 3 when no stack can run."""
    if earlier.begun is not None:
        begun = msgspec.structs.replace(begun, arms=earlier.begun.arms)
    visits = schedule(reduced(begun.campaign, rehearse=begun.rehearse), begun.arms)
    known = {key: reason for works, reason in _known_holes(begun, visits, checked) for key in works}
    holes = {key: reason for key, reason in (known | dict(earlier.holes)).items() if key not in earlier.done}
    state = replace(earlier, begun=begun, holes=holes)
    found = remaining(begun, state, dict(checked.loads))
    told = left_text(found) if earlier.done else left_text(found).replace(" left", " in all")
    before = (f"done before: {len(earlier.done)} works",) if earlier.done else ()
    lines = (*before, *_schedule_lines(begun, checked, state), told)
    data = {
        "schema": "kitctl.campaign.plan/1",
        "name": begun.name,
        "digest": begun.digest,
        "visits": [
            {"arm": v.arm.id, "round": v.round, "works": [work.key for work in v.works]}
            for v in open_visits(visits, state)
        ],
        "done": sorted(earlier.done),
        "blocked": msgspec.to_builtins(dict(checked.blocked)),
        "holes": msgspec.to_builtins(holes),
        "missing_bytes": dict(checked.missing),
        "builds": list(checked.builds),
        "seconds": found.seconds,
        "guessed_works": found.guessed,
    }
    return Result(
        data=data, lines=lines, exit=Exit.OK if earlier.done or open_visits(visits, state) else Exit.REFUSED
    )
