"""``kitctl stacks``: the serving configurations that the kit and the user hold."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.errors import Exit
from kitctl.kit.catalog import BrokenStack, ResolvedStack, all_stacks
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``stacks``: alone it lists, ``new`` proposes one."""
    from kitctl.commands import stacks_new

    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    proposed = verbs.add_parser(
        "new",
        help="propose a stack for a model on this host",
        description="Layouts that fit, ranked.",
        allow_abbrev=False,
    )
    stacks_new.add_arguments(proposed)


def run(args: argparse.Namespace, context: Context) -> Result:
    """All stacks with their layout, or a new one. Exit 2 when a stack file is broken; the others are listed still."""
    if args.verb == "new":
        from kitctl.commands import stacks_new

        return stacks_new.run(args, context)
    stacks, broken = all_stacks(load_kit_texts(find_kit(context.kit_dir)))
    rows = [(found.stack.name, layout_text(found), found.stack.summary) for found in stacks]
    width = max((len(name) for name, _, _ in rows), default=0)
    lines = [f"{name:{width}}  {layout:18}  {summary}" for name, layout, summary in rows]
    data = {
        "schema": "kitctl.stacks/1",
        "stacks": [_row(found) for found in stacks],
        "broken": [{"name": one.name, "is_users": one.is_users, **one.error.fields()} for one in broken],
    }
    lines += [line for one in broken for line in _broken_lines(one)]
    return Result(data=data, lines=tuple(lines), exit=Exit.USAGE if broken else Exit.OK)


def layout_text(found: ResolvedStack) -> str:
    """``tp 8, ep 4`` and, for a user's own stack, that it is."""
    parallel = msgspec.to_builtins(found.stack.parallel)
    sizes = [f"{name} {size}" for name, size in parallel.items() if size > 1] or ["1 process"]
    return ", ".join(sizes) + (" (yours)" if found.is_users else "")


def _row(found: ResolvedStack) -> dict[str, object]:
    body: dict[str, object] = msgspec.to_builtins(found.stack)
    return {**body, "gpus": found.stack.gpu_count, "is_users": found.is_users}


def _broken_lines(one: BrokenStack) -> list[str]:
    head, *more = one.error.lines()
    return [f"{one.name}: broken: {head}", *more]
