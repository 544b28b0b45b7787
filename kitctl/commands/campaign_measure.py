"""One work of a campaign against a stack that is up: a repeat of a point, an acceptance run, answers, a comparison."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import msgspec

from kitctl.bench.prompts import seed_of
from kitctl.bench.workload import Endpoint, Step
from kitctl.campaign.events import Done
from kitctl.campaign.schedule import Kind, Work
from kitctl.commands import accept
from kitctl.commands.accept_parity import PlainAnswers, compare_answers, take_answers
from kitctl.commands.accept_session import measure_acceptance
from kitctl.commands.api_keys import read_api_key
from kitctl.commands.bench_options import add_load_arguments, dataset_of, spec_of
from kitctl.commands.bench_session import Session, find_endpoint, warm_up
from kitctl.commands.bench_sweep import figures, measure_calmly
from kitctl.commands.server_choice import Server
from kitctl.edge.campaign_files import file_sha256
from kitctl.edge.clock import monotonic_s
from kitctl.edge.files import read_text, write_atomic
from kitctl.edge.http_calls import served_models
from kitctl.edge.load_client import target_of
from kitctl.errors import Exit, KitError
from kitctl.kit.campaign import Campaign, CampaignLoad
from kitctl.kit.json_text import decode_json
from kitctl.result import Context
from kitctl.watch.run_record import RunRecord


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A load's session with a server, and the ramps of the concurrencies that are warm."""

    session: Session
    ramps: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Field:
    """Where works are done: the campaign, the server that is up, the folder for answers, and what is warm."""

    campaign: Campaign
    digest: str
    server: Server
    run: str
    folder: str
    context: Context
    benches: dict[str, Bench] = field(default_factory=dict)


def server_of(record: RunRecord, *, label: str) -> Server:
    """The server of a run that is up. Raises KitError ``no-answer`` (exit 10) when it lists no model."""
    key = read_api_key(record.api_key_file) if record.api_key_file else None
    target = target_of(record.url, api_key=key)
    return Server(
        target=target,
        url=record.url,
        label=label,
        model=record.served_model,
        served=served_models(target),
        record=None,
    )


def do_work(work: Work, place: Field, *, needed: Done | None) -> Done:
    """Measure one work. ``needed``: the answers it compares with. Raises KitError for a server that does not answer."""
    begun_s = monotonic_s()
    match work.kind:
        case Kind.BENCH:
            done = _bench(work, place)
        case Kind.ACCEPT:
            done = _accept(work, place)
        case Kind.ANSWERS:
            done = _answers(work, place)
        case Kind.PARITY:
            done = _parity(work, place, needed)
    return msgspec.structs.replace(done, seconds=round(monotonic_s() - begun_s, 3))


def _empty(work: Work, place: Field) -> Done:
    return Done(work=work.key, arm=work.arm, run=place.run, seconds=0.0, served=place.server.served)


def _bench(work: Work, place: Field) -> Done:
    load = next(load for load in place.campaign.loads if load.title == work.load)
    bench = place.benches.get(load.title)
    if bench is None:
        bench = place.benches[load.title] = Bench(session=open_session(load, place))
    concurrency = work.concurrency or 1
    step = Step(concurrency=concurrency, repeat=work.repeat)
    if concurrency not in bench.ramps:
        bench.ramps[concurrency] = warm_up(bench.session, step)
    repeat = measure_calmly(bench.session, step, bench.ramps[concurrency])
    place.context.say(f"{work.key}: {figures(repeat)}")
    return msgspec.structs.replace(_empty(work, place), spec=bench.session.spec, repeat=repeat)


def open_session(load: CampaignLoad, place: Field) -> Session:
    """A session as ``kitctl bench`` opens it: the same options, the first endpoint that answers."""
    parser = argparse.ArgumentParser()
    add_load_arguments(parser)
    words = ["--dataset", load.dataset, "--requests", str(load.requests_per_stream)]
    words += ["--repeats", str(place.campaign.repeats), "--input-tokens", str(load.input_tokens)]
    words += ["--output-tokens", str(load.output_tokens)] if load.output_tokens else []
    words += ["--temperature", str(load.temperature), "--timeout-s", str(load.timeout_s)]
    args = parser.parse_args(words)
    dataset = dataset_of(load.dataset)
    spec = spec_of(args, place.server.model, dataset)
    session = Session(
        spec=spec,
        target=place.server.target,
        dataset=dataset,
        seed=seed_of(place.digest, load.title),
        say=place.context.say,
    )
    choices: tuple[Endpoint, ...] = args.endpoint if spec.dataset == "random" else (spec.endpoint,)
    endpoint, _ = find_endpoint(session, choices)
    return Session(
        spec=msgspec.structs.replace(spec, endpoint=endpoint),
        target=session.target,
        dataset=dataset,
        seed=session.seed,
        say=session.say,
    )


def _accept_arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    accept.add_arguments(parser)
    return parser.parse_args(list(words))


def _accept(work: Work, place: Field) -> Done:
    runs = place.campaign.accept
    assert runs is not None
    words = ["--concurrency", str(work.concurrency), "--output-tokens", str(runs.output_tokens)]
    words += ["--prompts", str(runs.prompts)] if runs.prompts else []
    args = _accept_arguments(*words)
    (found,) = measure_acceptance(place.server, dataset_of(runs.dataset), args, place.context)
    place.context.say(f"{work.key}: accept length {found.overall.accept_length:.2f}")
    return msgspec.structs.replace(_empty(work, place), accept=found)


def _answers(work: Work, place: Field) -> Done:
    runs = place.campaign.parity
    assert runs is not None
    args = _accept_arguments("--prompts", str(runs.prompts))
    answers = take_answers(place.server, dataset_of(runs.dataset), args, place.context)
    name = f"answers-{work.arm.replace('/', '_')}.json"
    path = f"{place.folder}/{name}"
    write_atomic(path, msgspec.json.encode(answers).decode())
    place.context.say(f"{work.key}: {len(answers.prompts)} prompts answered")
    return msgspec.structs.replace(_empty(work, place), file=name, sha256=file_sha256(path))


def _parity(work: Work, place: Field, needed: Done | None) -> Done:
    runs = place.campaign.parity
    path = f"{place.folder}/{needed.file}" if needed else ""
    if runs is None or needed is None or file_sha256(path) != needed.sha256:
        raise KitError(
            "answers-lost",
            f"the answers that {work.arm} is compared with are not as they were written",
            evidence=(path or "they were never taken",),
            remedy="begin the campaign anew with --fresh",
            exit_code=Exit.USAGE,
        )
    answers = decode_json(read_text(path), PlainAnswers)
    args = _accept_arguments("--prompts", str(runs.prompts))
    found = compare_answers(place.server, answers, dataset_of(runs.dataset), args, place.context)
    place.context.say(f"{work.key}: {found.verdict}")
    return msgspec.structs.replace(_empty(work, place), parity=found)
