"""Run a sweep from the first question to the last point, keep it line by line, and go on after an interrupt."""

from __future__ import annotations

import tomllib
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from kitctl import __version__
from kitctl.bench.measure import Repeat
from kitctl.bench.points import Point
from kitctl.bench.prompts import PromptSet
from kitctl.bench.results import Head, line_of, missing_steps, pick_settings
from kitctl.bench.validity import Limits, client_reasons, first_look
from kitctl.bench.workload import Endpoint, Spec, Step, spec_hash
from kitctl.commands.bench_session import Session, find_endpoint, measure_step, warm_up
from kitctl.commands.result_reading import read_sweeps
from kitctl.commands.server_choice import Server
from kitctl.edge.clock import monotonic_s
from kitctl.edge.files import holds_anything
from kitctl.edge.http_calls import base_url, server_info
from kitctl.edge.package_data import package_text
from kitctl.edge.result_files import (
    append_lines,
    mend_tail,
    new_run_id,
    newest_result,
    read_whole_lines,
    result_lock,
    results_dir,
    utc_now,
)
from kitctl.errors import Exit, KitError
from kitctl.result import Context

MOST_RETAKES = 2


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One sweep as asked for. ``endpoints``: those to try, in order. ``out`` ``None``: the state folder."""

    server: Server
    spec: Spec
    endpoints: tuple[Endpoint, ...]
    dataset: PromptSet
    steps: tuple[Step, ...]
    seed: int
    out: str | None
    resume: bool
    label: str


def run_sweep(sweep: Sweep, context: Context, held: ExitStack) -> tuple[tuple[Point, ...], str]:
    """Measure what is missing; returns the points and the result file's path, which ``held`` keeps for this process.

    Raises KitError ``result-busy`` (exit 3) while another kitctl writes it; ``nothing-to-resume``, ``result-exists``
    and ``other-sweep`` (exit 2) for a file that does not fit what was asked.
    """
    say = context.say
    if sweep.out is not None:
        _hold_named(sweep.out, sweep, context, held)
    session = Session(
        spec=sweep.spec, target=sweep.server.target, dataset=sweep.dataset, seed=sweep.seed, say=say
    )
    wanted = sweep.endpoints if sweep.spec.dataset == "random" else (sweep.spec.endpoint,)
    endpoint, answer = find_endpoint(session, wanted)
    spec = msgspec.structs.replace(sweep.spec, endpoint=endpoint)
    session = Session(spec=spec, target=session.target, dataset=session.dataset, seed=session.seed, say=say)
    path, done = _open_file(sweep, spec, context, held)
    steps = sweep.steps
    hopeless = first_look(answer, model=spec.model, served=sweep.server.served)
    is_doubtful = answer.error is not None
    if is_doubtful:
        say(f"a first request failed, so the first load is measured alone unless it is answered: {hopeless}")
    elif hopeless is not None:
        say(f"no point can be valid, so each is measured once: {hopeless}")
        steps = tuple(step for step in steps if step.repeat == 0)
    say(f"results go to {path} (after an interrupt, --resume goes on with it)")
    if done:
        say(_going_on(path, sweep.steps, done))
    run = (sweep.server.record or {}).get("id")
    _measure_all(session, missing_steps(steps, done), path, run=run, is_doubtful=is_doubtful)
    text = read_whole_lines(path)
    points = read_sweeps(path, text, taken="a file that kitctl bench wrote")[0].points
    standing = set(text.split("\n"))
    append_lines(path, [line for point in points if (line := line_of(point)) not in standing])
    return points, path


def _going_on(path: str, steps: tuple[Step, ...], done: tuple[Repeat, ...]) -> str:
    """What of this sweep is done, and that repeats of other loads, asked for earlier, stay in the file."""
    points = {(step.concurrency, step.request_rate, step.repeat) for step in steps}
    others = sum((one.concurrency, one.request_rate, one.repeat) not in points for one in done)
    kept = f"; repeats of other loads, not asked for now, stay in it: {others}" if others else ""
    count = len(steps) - len(missing_steps(steps, done))
    return f"going on with {path}: {count} of {len(steps)} repeats are done{kept}"


def _hold_named(path: str, sweep: Sweep, context: Context, held: ExitStack) -> None:
    """Take the file that was named before anything is asked of the server, and see that it is what it should be."""
    if sweep.resume and not holds_anything(path):
        raise _nothing_to_resume(f"{path} holds no sweep")
    held.enter_context(result_lock(path, say=context.say))
    if not sweep.resume and holds_anything(path):
        raise _taken(path)


def _open_file(sweep: Sweep, spec: Spec, context: Context, held: ExitStack) -> tuple[str, tuple[Repeat, ...]]:
    """The result file, held, with its head; and the repeats that stand in it."""
    digest = spec_hash(spec)
    run_id = new_run_id()
    path = sweep.out or f"{results_dir()}/{run_id}.jsonl"
    if sweep.resume and sweep.out is None:
        path = _newest(digest, base_url(sweep.server.target))
    if sweep.out is None:
        held.enter_context(result_lock(path, say=context.say))
    if sweep.resume:
        return path, _repeats_of(path, digest, base_url(sweep.server.target))
    append_lines(path, [line_of(_head(sweep, spec, digest, run_id))])
    return path, ()


def _newest(digest: str, url: str) -> str:
    path = newest_result(results_dir(), f'"spec_hash":"{digest}"', f'"url":"{url}"')
    if path is None:
        raise _nothing_to_resume(f"no sweep of {url} with these settings lies in {results_dir()}")
    return path


def _repeats_of(path: str, digest: str, url: str) -> tuple[Repeat, ...]:
    """The repeats of a sweep that is gone on with; what an interrupt left of a line is cut from its file."""
    found, *others = read_sweeps(
        path, read_whole_lines(path), taken="the -o FILE of the sweep that was interrupted"
    )
    if found.head.spec_hash != digest or found.head.url != url:
        raise _other_sweep(path)
    if others:
        raise _closed(path, others[0].head.label)
    mend_tail(path)
    return found.repeats


def _head(sweep: Sweep, spec: Spec, digest: str, run_id: str) -> Head:
    allowed = tomllib.loads(package_text("bench_settings.toml"))["server_info"]
    return Head(
        label=sweep.label,
        run_id=run_id,
        started_at=utc_now(),
        kitctl_version=__version__,
        url=base_url(sweep.server.target),
        spec=spec,
        spec_hash=digest,
        served_models=sweep.server.served,
        server=pick_settings(server_info(sweep.server.target), allowed),
        run_record=sweep.server.record,
    )


def _measure_all(
    session: Session, steps: tuple[Step, ...], path: str, *, run: str | None, is_doubtful: bool
) -> None:
    """Measure step by step; a doubtful server's first step ends it when no request of it was answered."""
    ramps: dict[tuple[int | None, float | None], float] = {}
    begun = monotonic_s()
    for number, step in enumerate(steps):
        key = (step.concurrency, step.request_rate)
        if key not in ramps:
            session.say(f"{step.name}: warm-up")
            ramps[key] = warm_up(session, step)
        repeat = msgspec.structs.replace(measure_calmly(session, step, ramps[key]), run=run)
        append_lines(path, [line_of(repeat)])
        left_s = (monotonic_s() - begun) / (number + 1) * (len(steps) - number - 1)
        session.say(f"{step.name} repeat {step.repeat + 1}: {figures(repeat)}; about {left_s:.0f} s left")
        if is_doubtful and number == 0 and not repeat.answered:
            _say_not_measured(session, steps)
            return


def _say_not_measured(session: Session, steps: tuple[Step, ...]) -> None:
    names = tuple(dict.fromkeys(step.name for step in steps if step.name != steps[0].name))
    if names:
        session.say(f"not measured, since no request was answered: {', '.join(names)}")


def measure_calmly(session: Session, step: Step, ramp_s: float) -> Repeat:
    """Measure a step; again, with new prompts, while other work on this machine made the client late."""
    repeat = measure_step(session, step, ramp_s=ramp_s)
    for attempt in range(1, MOST_RETAKES + 1):
        late = next(
            (reason for reason in client_reasons([repeat], Limits()) if "client-late" in reason), None
        )
        if late is None:
            break
        session.say(f"{step.name}: {late}; measuring this repeat again")
        repeat = measure_step(session, step, ramp_s=ramp_s, attempt=attempt)
    return repeat


def figures(repeat: Repeat) -> str:
    """A repeat in a few words: its rate and what failed."""
    rates = [stream.output_tokens / stream.seconds for stream in repeat.streams if stream.seconds > 0]
    rate = sum(rates) / len(rates) * repeat.streams_wanted if rates else 0.0
    failed = f", {repeat.errors} failed" if repeat.errors else ""
    return f"{rate:.1f} tok/s, {repeat.requests} requests{failed}"


def _taken(path: str) -> KitError:
    return KitError(
        "result-exists",
        f"{path} holds results already",
        remedy="give another -o FILE, or --resume to go on with it",
        exit_code=Exit.USAGE,
    )


def _nothing_to_resume(cause: str) -> KitError:
    return KitError(
        "nothing-to-resume",
        cause,
        remedy="give the -o FILE of the sweep that was interrupted, or begin a new one without --resume",
        exit_code=Exit.USAGE,
    )


def _closed(path: str, label: str) -> KitError:
    return KitError(
        "sweep-closed",
        f"{path} ends with a second opinion, so its sweep cannot go on",
        evidence=(f"after it stands: {label}",),
        remedy="begin a new sweep with another -o FILE, without --resume",
        exit_code=Exit.USAGE,
    )


def _other_sweep(path: str) -> KitError:
    return KitError(
        "other-sweep",
        f"{path} holds a sweep of other settings or of another server",
        remedy="give the options that it was begun with, or another -o FILE without --resume",
        exit_code=Exit.USAGE,
    )
