"""From command-line words to a plan: the part that plan, render, check and up share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from kitctl.commands.api_keys import read_api_key
from kitctl.commands.argument_types import ip_address, port_number
from kitctl.commands.memory_judging import judge_drafter, judge_load, judge_memory
from kitctl.commands.outside_types import image_reference
from kitctl.commands.plan_checks import is_on_engine, judge, read_shapes
from kitctl.commands.rank_options import rank_of
from kitctl.edge.environment import config_dir
from kitctl.edge.files import read_text, read_text_if_there
from kitctl.edge.kit_files import find_kit, load_kit_texts, load_pin_texts
from kitctl.edge.package_data import package_text
from kitctl.edge.shipped import shipped_copies
from kitctl.edge.store_files import locate_model, quick_verify, store_at
from kitctl.errors import Exit, KitError
from kitctl.finding import without_skipped
from kitctl.host.facts import HostFacts
from kitctl.host.facts_json import decode_facts
from kitctl.kit.catalog import addon_images, load_overlays
from kitctl.kit.models_lock import LockState, ModelEntry, find_entry, merge_locks, read_models_lock
from kitctl.kit.settings import read_setting
from kitctl.kit.stack import Stack
from kitctl.kit.yaml_reader import read_yaml
from kitctl.plan.flag_spelling import read_spellings
from kitctl.plan.image_choice import choose_image
from kitctl.plan.load_need import load_findings
from kitctl.plan.placement import place_stack
from kitctl.plan.planner import Kit, compose_plan
from kitctl.plan.rehearsal import resolve_for_host, stack_wants_gpus
from kitctl.plan.types import Plan, PlannedModel, Request
from kitctl.render.compose import TLS_FILE, key_files, needs_certificate
from kitctl.result import Context
from kitctl.store.verdict import findings_of


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan with what it was made from: enough to render, build, fetch and start it."""

    plan: Plan
    kit_dir: str
    kit: Kit
    facts: HostFacts
    entries: Mapping[str, ModelEntry]
    store_dir: str


def add_plan_arguments(parser: argparse.ArgumentParser, *, stack_is_optional: bool = False) -> None:
    """The options that decide a plan."""
    nargs = "?" if stack_is_optional else None
    parser.add_argument("stack", metavar="STACK", nargs=nargs, help="a name that 'kitctl stacks' prints")
    parser.add_argument("--gpus", metavar="LIST", help="GPUs to reserve: 0-7, 4,5, all or UUIDs")
    parser.add_argument(
        "--overlay", metavar="NAME", help="the host kind's overlay (default: from the GPUs' links)"
    )
    parser.add_argument(
        "--add", action="append", default=[], metavar="NAME", help="an add-on overlay; repeatable"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="change one stack setting"
    )
    parser.add_argument(
        "--port", type=port_number, metavar="N", help="port on the host (default: the stack's)"
    )
    parser.add_argument(
        "--bind",
        type=ip_address,
        metavar="ADDR",
        help="address on the host; beyond loopback needs --api-key-file",
    )
    parser.add_argument(
        "--api-key-file", metavar="FILE", help="a file that holds the API key that clients must send"
    )
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="certificate (chain) of the gateway add-on's port, PEM"
    )
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's private key, PEM")
    parser.add_argument("--name", metavar="NAME", help="run a second copy of the stack under this name")
    parser.add_argument(
        "--image", type=image_reference, metavar="REF", help="serve from this image instead of the kit's"
    )
    parser.add_argument("--store", metavar="DIR", help="the model store (default: the Hugging Face cache)")
    parser.add_argument(
        "--rehearse", action="store_true", help="the same path on the CPU with the demo model"
    )
    parser.add_argument("--boot", action="store_true", help="come back after a reboot of the host")
    parser.add_argument(
        "--facts", metavar="FILE", help="plan for the host of this 'kitctl doctor --json' file"
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="CODE", help="do not block on this finding"
    )


def request_of(args: argparse.Namespace) -> Request:
    """The command line as a request. Raises KitError ``bad-setting`` (exit 2)."""
    return Request(
        stack=args.stack,
        settings=tuple(read_setting(text) for text in args.set),
        gpus=args.gpus,
        overlay=args.overlay,
        addons=tuple(args.add),
        port=args.port,
        bind=args.bind,
        name=args.name,
        rehearse=args.rehearse,
        boot=args.boot,
        engine_flags=args.engine_flags,
        image=args.image,
        rank=rank_of(args),
        api_key_file=args.api_key_file,
        tls_cert_file=args.tls_cert,
        tls_key_file=args.tls_key,
    )


def make_plan(args: argparse.Namespace, context: Context, *, facts: HostFacts | None = None) -> Planned:
    """Read kit and host, decide, and judge. Nothing is fetched, built, started or written.

    ``facts``: the host as it was read before, as from ``--facts``; without either it is probed now. Raises KitError
    (exit 2) for what the files or the command line get wrong.
    """
    request = request_of(args)
    is_probed = facts is None and args.facts is None
    if is_probed:
        require_secret_files(request)
    kit_dir = find_kit(context.kit_dir)
    kit = load_kit(kit_dir)
    hosted = resolve_for_host(kit.texts, request, kit.overlays)
    stack = hosted.resolved.stack
    store_dir = store_at(args.store)
    entries = model_entries(kit_dir, stack)
    image = choose_image(stack, request, pin_texts=load_pin_texts(kit_dir, stack.image.name))
    wants_gpus = stack_wants_gpus(request, kit.overlays, stage=stack.image.stage)
    if facts is None:
        facts = read_facts(args.facts, context, disks=(store_dir,), trials=wants_gpus)
    placement = place_stack(stack, request, overlays=kit.overlays, facts=facts)
    compose = partial(
        compose_plan,
        request,
        kit=kit,
        hosted=hosted,
        placement=placement,
        image=image,
        models=tuple(place_model(entry, role, store_dir) for role, entry in entries.items()),
        facts=facts,
    )
    shapes = read_shapes(entries)
    memory = judge_memory(compose(), placement, facts, entries=entries, shapes=shapes)
    plan = compose(max_total_tokens=memory.max_total_tokens)
    load = judge_load(plan, entries)
    findings = (
        *placement.findings,
        *judge(
            plan,
            placement,
            facts,
            shapes,
            store_dir=store_dir,
            ram_bytes=load.ram_bytes,
            on_engine=is_probed,
            lacks_image=is_probed and image.name is not None and not is_on_engine(image.reference),
        ),
        *load_findings(load, start_period_s=stack.serve.start_period_s),
        *judge_drafter(plan, entries=entries, shapes=shapes),
        *memory.findings,
    )
    told = without_skipped(findings, frozenset(args.skip))
    plan = replace(plan, findings=told, memory=memory.json(), load=load.json())
    return Planned(plan=plan, kit_dir=kit_dir, kit=kit, facts=facts, entries=entries, store_dir=store_dir)


def load_kit(kit_dir: str) -> Kit:
    """The kit's overlays, base and flag spellings. Raises KitError (exit 2) for a broken file."""
    texts = load_kit_texts(kit_dir)
    base = texts.kit["compose/base.yaml"]
    tree = read_yaml(base, source="compose/base.yaml")
    return Kit(
        texts=texts,
        base=base,
        base_environment=tree["services"]["engine"]["environment"],
        overlays=load_overlays(texts),
        spellings=read_spellings(package_text("engine_flags.toml")),
        container_port=int(tree["x-kitctl"]["container_port"]),
        addon_images=addon_images(texts),
    )


def read_facts(path: str | None, context: Context, *, disks: tuple[str, ...], trials: bool) -> HostFacts:
    """The facts in ``path``, else those that probes read now. Raises KitError ``bad-facts`` (exit 2)."""
    if path is not None:
        return decode_facts(read_text(path), source=path)
    from kitctl.edge.probe_runner import gather_host_facts

    return gather_host_facts(engine=context.engine, disks=disks, trials=trials)


def model_entries(kit_dir: str, stack: Stack) -> dict[str, ModelEntry]:
    """Lock entries of the stack's models by role, the user's own lock winning. Raises KitError (exit 2)."""
    own_path = f"{config_dir()}/models.lock"
    own = read_text_if_there(own_path)
    lock = read_models_lock(read_text(f"{kit_dir}/models.lock"))
    if own is not None:
        lock = merge_locks(lock, read_models_lock(own, source=own_path))
    roles = {"target": stack.model} | ({"drafter": stack.drafter.model} if stack.drafter else {})
    return {role: find_entry(lock, model) for role, model in roles.items()}


def place_model(entry: ModelEntry, role: str, store_dir: str) -> PlannedModel:
    """Where the model lies in the store, what is missing and what a quick look finds wrong.

    Raises KitError ``shipped-model-differs`` (exit 5).
    """
    place = locate_model(entry, store_dir)
    if entry.state is LockState.SHIPPED:
        shipped_copies(entry)
    return PlannedModel(
        model=entry.repo,
        role=role,
        folder=str(place.mount_dir),
        inner=str(place.model_dir) if str(place.model_dir) != "." else "",
        missing_bytes=place.missing_bytes,
        commit=entry.commit,
        generated=entry.state is LockState.SHIPPED,
        findings=findings_of(entry, place, quick_verify(entry, place)),
    )


def api_key_of(plan: Plan) -> str | None:
    """The API key in the plan's key file. Raises KitError ``file-unreadable`` or ``bad-api-key`` (exit 2)."""
    return read_api_key(plan.api_key_file) if plan.api_key_file is not None else None


def require_secret_files(request: Request) -> None:
    """Read the key and certificate that are named, before anything is done that needs them. Raises KitError (2)."""
    if request.api_key_file is not None:
        read_api_key(request.api_key_file)
    for path in (request.tls_cert_file, request.tls_key_file):
        if path is not None:
            read_text(path)
    if request.tls_cert_file is not None and request.tls_key_file is not None:
        from kitctl.edge.certificates import read_certificate

        read_certificate(request.tls_cert_file, request.tls_key_file)


def key_files_of(plan: Plan) -> dict[str, str]:
    """The files that hand the key to the engine and the certificate to a gateway; none for a plan without them."""
    key = api_key_of(plan)
    files = key_files(key, package_text("serve_with_key.py")) if key is not None else {}
    return files | ({TLS_FILE: certificate_of(plan)} if needs_certificate(plan) else {})


def certificate_of(plan: Plan) -> str:
    """The certificate and its key as one text. Raises KitError ``bad-certificate``, ``file-unreadable`` (exit 2)."""
    from kitctl.edge.certificates import read_certificate

    if plan.tls_cert_file is None or plan.tls_key_file is None:
        raise KitError(
            "bad-certificate",
            "the add-on's port needs a certificate and its key",
            remedy="give --tls-cert FILE and --tls-key FILE",
            exit_code=Exit.USAGE,
        )
    return read_certificate(plan.tls_cert_file, plan.tls_key_file)
