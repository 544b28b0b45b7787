"""``kitctl stacks new``: a stack for any model of the lock, from its shape and this host's GPUs."""

from __future__ import annotations

import argparse
from typing import Any

from kitctl.commands.argument_types import positive
from kitctl.commands.memory_judging import stated_weights
from kitctl.commands.plan_checks import read_shapes
from kitctl.commands.planning import model_entries, read_facts
from kitctl.edge.environment import config_dir
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.kit_files import find_kit, load_pin_texts
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.host.facts import HostFacts
from kitctl.host.topology import classify
from kitctl.kit.stack import Drafter, Stack
from kitctl.plan.engine_rules import read_rules
from kitctl.plan.gpu_choice import choose_gpus
from kitctl.plan.image_choice import choose_image
from kitctl.plan.memory_check import smallest_gpu
from kitctl.plan.memory_data import read_memory_data
from kitctl.plan.memory_report import memory_json
from kitctl.plan.names import project_word
from kitctl.plan.propose import Proposal, Wanted, propose, stack_yaml
from kitctl.plan.types import Request
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``stacks new``."""
    parser.add_argument("model", metavar="MODEL", help="a model of models.lock")
    parser.add_argument("--drafter", metavar="MODEL", help="a drafter of models.lock, made for the model")
    parser.add_argument("--name", metavar="NAME", help="the stack's name (default: from the model's)")
    parser.add_argument("--gpus", metavar="LIST", help="GPUs to plan for (default: all of the host)")
    parser.add_argument("--facts", metavar="FILE", help="the host of this 'kitctl doctor --json' file")
    parser.add_argument(
        "--pick", type=positive, default=1, metavar="N", help="take the Nth candidate (default 1)"
    )
    parser.add_argument("--write", action="store_true", help="write it to your own stacks")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Candidates, best first, and the stack file of the one picked.

    Raises KitError ``no-layout-fits`` (exit 3) when none fits, ``stack-exists`` (exit 2) rather than replace one.
    """
    wanted = wanted_of(args, context)
    found = propose(
        wanted,
        book=read_rules(package_text("engine_rules.yaml")),
        data=read_memory_data(package_text("engine_memory.toml")),
    )
    if len(found) < args.pick or args.pick < 1:
        raise _none_fits(wanted, len(found))
    text = stack_yaml(found[args.pick - 1])
    path = f"{config_dir()}/stacks/{wanted.name}.yaml"
    lines = [_row(at, one) for at, one in enumerate(found, start=1)]
    if args.write:
        _write_new(path, text)
        lines += [f"written: {path}", f"next: kitctl plan {wanted.name}"]
    else:
        lines += ["", text.rstrip(), "", "--write writes it to your own stacks"]
    data = {
        "schema": "kitctl.stacks.new/1",
        "name": wanted.name,
        "candidates": [_json(one) for one in found],
        "picked": args.pick,
        "stack_file": text,
        "path": path if args.write else None,
    }
    return Result(data=data, lines=tuple(lines))


def wanted_of(args: argparse.Namespace, context: Context) -> Wanted:
    """Models and GPUs that the stack is for. Raises KitError (exit 2) for unknown ones, ``no-gpus`` (exit 3)."""
    kit_dir = find_kit(context.kit_dir)
    name = args.name or args.model.rpartition("/")[2].lower()
    project_word(name, what="--name")
    drafter = Drafter(model=args.drafter) if args.drafter else None
    blank = Stack(name=name, summary="", model=args.model, drafter=drafter)
    entries = model_entries(kit_dir, blank)
    shapes = read_shapes(entries)
    facts = read_facts(args.facts, context, disks=(), trials=False)
    chosen = choose_gpus(facts, wanted=args.gpus or "all", count=len(facts.gpus or ()))
    gpu = smallest_gpu(facts, chosen.indices, own_project=None)
    if gpu is None:
        raise _no_gpus()
    image = choose_image(blank, Request(stack=name), pin_texts=load_pin_texts(kit_dir, blank.image.name))
    return Wanted(
        name=name,
        target=args.model,
        model=shapes.target,
        weights=stated_weights(shapes.target, entries["target"]),
        drafter_name=args.drafter,
        drafter=shapes.drafter,
        gpu=gpu,
        gpu_count=len(chosen.indices),
        archs=_archs(facts, chosen.indices),
        links=_links(facts, chosen.indices),
        release=image.release or "",
    )


def _archs(facts: HostFacts, indices: tuple[int, ...]) -> tuple[str, ...]:
    used = [gpu for gpu in facts.gpus or () if gpu.index in indices]
    return tuple(sorted({gpu.compute_capability for gpu in used if gpu.compute_capability}))


def _links(facts: HostFacts, indices: tuple[int, ...]) -> str | None:
    found = classify(facts.topology, indices).links if facts.topology else None
    return found.value if found else None


def _row(at: int, one: Proposal) -> str:
    sizes = one.stack.parallel
    layout = f"tp {sizes.tp} ep {sizes.ep} pp {sizes.pp}"
    return f"{at:2}  {layout:18} {one.fit.verdict.value:5} {one.fit.kv_tokens:>9} tokens  {'; '.join(one.reasons[2:])}"


def _json(one: Proposal) -> dict[str, Any]:
    sizes = one.stack.parallel
    return {
        "tp": sizes.tp,
        "ep": sizes.ep,
        "pp": sizes.pp,
        "gpus": one.stack.gpu_count,
        "reasons": list(one.reasons),
        "memory": memory_json(one.fit),
    }


def _write_new(path: str, text: str) -> None:
    if read_text_if_there(path) is not None:
        raise KitError(
            "stack-exists",
            f"{path} is there already",
            remedy="choose another --name, or remove the file",
            exit_code=Exit.USAGE,
        )
    write_atomic(path, text)


def _none_fits(wanted: Wanted, count: int) -> KitError:
    gpus = f"{wanted.gpu_count} GPUs of {wanted.gpu.total_mib} MiB"
    said = f"no layout of {wanted.target} fits {gpus}" if count == 0 else f"there are {count} candidates only"
    return KitError(
        "no-layout-fits",
        said,
        remedy="give more or larger GPUs, or a smaller checkpoint" if count == 0 else f"--pick 1 to {count}",
        exit_code=Exit.REFUSED if count == 0 else Exit.USAGE,
    )


def _no_gpus() -> KitError:
    return KitError(
        "no-gpus",
        "no GPU with known memory is on this host",
        remedy="run it on the GPU host, or with --facts FILE of its 'kitctl doctor --json'",
        exit_code=Exit.REFUSED,
    )
