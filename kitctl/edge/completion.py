"""Answer a shell that asks what may follow on a command line; stacks, overlays and models are looked up by name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable

_ASKED = "_ARGCOMPLETE"
Completer = Callable[..., list[str]]


def is_asked() -> bool:
    """Whether a shell's completion started this process, not a person."""
    return _ASKED in os.environ


def line_words() -> list[str]:
    """The words of the command line so far, without the program's own name."""
    return os.environ.get("COMP_LINE", "").split()[1:]


def answer(parser: argparse.ArgumentParser) -> None:
    """Write the candidates where the shell reads them, and end the process."""
    import argcomplete

    for action in _actions(parser):
        names = _NAMES.get(action.dest)
        if names is not None and action.choices is None:
            action.completer = names  # type: ignore[attr-defined]  # argcomplete's own way
    argcomplete.autocomplete(parser, always_complete_options=False, append_space=True)


def shell_code(shell: str) -> str:
    """What a shell must read to complete ``kitctl``."""
    from argcomplete.shell_integration import shellcode

    return str(shellcode(["kitctl"], shell=shell)).lstrip("\n")


def _actions(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _stacks(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from kitctl.edge.kit_files import find_kit, load_kit_texts
    from kitctl.kit.catalog import stack_names

    return list(stack_names(load_kit_texts(find_kit(getattr(parsed_args, "kit", None)))))


def _overlays(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from kitctl.edge.kit_files import find_kit, load_kit_texts
    from kitctl.kit.catalog import named_texts

    return list(named_texts(load_kit_texts(find_kit(getattr(parsed_args, "kit", None))), "overlays"))


def _models(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from kitctl.edge.lock_file import read_locks

    return list(read_locks(getattr(parsed_args, "kit", None)).merged.names)


_NAMES: dict[str, Completer] = {
    "stack": _stacks,
    "stacks": _stacks,
    "parity": _stacks,
    "diff": _stacks,
    "overlay": _overlays,
    "add": _overlays,
    "model": _models,
    "models": _models,
    "drafter": _models,
}
