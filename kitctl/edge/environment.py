"""Read the process environment: option defaults, folders, terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from kitctl.errors import Exit, KitError

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"", "0", "false", "no", "off"}
_OWN = {"KITCTL_KIT", "KITCTL_HOST", "KITCTL_CONFIG_DIR", "KITCTL_REMOTE_JOB"}


def apply_environment(parser: argparse.ArgumentParser, command: str) -> None:
    """Give each option of ``command`` the value of its ``KITCTL_*`` variable as default, checked as typed.

    Raises KitError ``bad-variable`` (exit 2) for a value that the option would refuse.
    """
    verbs = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for action in _option_actions(verbs.choices[command]):
        value = os.environ.get(f"KITCTL_{action.dest.upper()}")
        if value is not None:
            action.default = _typed(action, value)
            action.required = False


def _option_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options of a command and of its own sub-commands (``models pull``)."""
    found = [a for a in parser._actions if a.option_strings and a.default is not argparse.SUPPRESS]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found.extend(_option_actions(inner))
    return found


def _typed(action: argparse.Action, value: str) -> object:
    if action.nargs == 0:
        return _flag(action, value)
    try:
        typed = action.type(value) if callable(action.type) else value
    except (ValueError, argparse.ArgumentTypeError) as bad:
        raise _bad_variable(action, value, str(bad)) from bad
    if action.choices is not None and typed not in action.choices:
        raise _bad_variable(action, value, f"one of {', '.join(map(str, action.choices))}")
    return [typed] if isinstance(action, argparse._AppendAction) else typed


def _flag(action: argparse.Action, value: str) -> object:
    if value.lower() in _TRUE:
        return action.const
    if value.lower() in _FALSE:
        return action.default
    raise _bad_variable(action, value, "1 or 0")


def _bad_variable(action: argparse.Action, value: str, wanted: str) -> KitError:
    name = f"KITCTL_{action.dest.upper()}"
    return KitError(
        "bad-variable",
        f"the environment variable {name} holds {value!r}, which {action.option_strings[-1]} refuses",
        evidence=(f"wanted: {wanted}",),
        remedy=f"unset {name} or give it a value that the option takes",
        exit_code=Exit.USAGE,
    )


def use_engine(engine: str | None) -> None:
    """Point every later call at ``engine``: an address goes to DOCKER_HOST, a name to DOCKER_CONTEXT."""
    if engine is None:
        return
    is_address = "://" in engine
    os.environ["DOCKER_HOST" if is_address else "DOCKER_CONTEXT"] = engine
    os.environ.pop("DOCKER_CONTEXT" if is_address else "DOCKER_HOST", None)


def engine_elsewhere() -> str | None:
    """The address of an engine that is not this machine's default socket; ``None`` for that one, at no cost.

    A context is asked of docker. Raises KitError ``unknown-context`` (exit 2).
    """
    address = os.environ.get("DOCKER_HOST")
    if address:
        return None if address.startswith(("unix://", "npipe://", "fd://")) else address
    context = os.environ.get("DOCKER_CONTEXT") or _current_context()
    if not context or context == "default":
        return None
    from kitctl.edge.remote_line import context_endpoint

    endpoint = context_endpoint(context)
    if endpoint is None:
        raise KitError(
            "unknown-context",
            f"docker knows no context {context}",
            remedy="docker context ls shows those there are; a host is named as ssh://USER@HOST",
            exit_code=Exit.USAGE,
        )
    return None if endpoint.startswith(("unix://", "npipe://", "fd://")) else endpoint


def _current_context() -> str | None:
    """The context that ``docker context use`` chose."""
    folder = os.environ.get("DOCKER_CONFIG")
    try:
        path = Path(folder) if folder else Path.home() / ".docker"
        chosen = json.loads((path / "config.json").read_text(encoding="utf-8")).get("currentContext")
    except (OSError, ValueError, AttributeError, RuntimeError):
        return None
    return chosen if isinstance(chosen, str) else None


def forwarded_variables() -> dict[str, str]:
    """The ``KITCTL_*`` variables that count on a remote host too: all but those that name kit, host and folders."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name.startswith("KITCTL_") and name not in _OWN) or name == "NO_COLOR"
    }


def place_carried(args: argparse.Namespace) -> None:
    """On a remote host: give options the places of the files that came along, and use this host's own engine."""
    folder = os.environ.pop("KITCTL_REMOTE_JOB", None)
    if folder is None:
        return
    options = json.loads((Path(folder) / "carried.json").read_text(encoding="utf-8"))
    for option, places in options.items():
        value = getattr(args, option, None)
        if isinstance(value, str):
            setattr(args, option, places.get(value, value))
    args.host = None


def is_terminal() -> bool:
    """Whether a person watches stderr."""
    return sys.stderr.isatty()


def stdin_is_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def variable(name: str) -> str | None:
    """An environment variable, or ``None`` when unset or empty."""
    return os.environ.get(name) or None


def is_on(name: str) -> bool:
    """Whether the variable of an option without a value turns it on."""
    return os.environ.get(name, "").lower() in _TRUE


def config_dir() -> str:
    """The user's own stacks and overlays: ``$XDG_CONFIG_HOME/kitctl``; on a remote host those that came along."""
    return os.environ.get("KITCTL_CONFIG_DIR") or str(_xdg("XDG_CONFIG_HOME", ".config"))


def state_dir() -> str:
    """Runs, records and locks: ``$XDG_STATE_HOME/kitctl``."""
    return str(_xdg("XDG_STATE_HOME", ".local/state"))


def cache_dir() -> str:
    """What can be made again: ``$XDG_CACHE_HOME/kitctl``."""
    return str(_xdg("XDG_CACHE_HOME", ".cache"))


def _xdg(variable_name: str, below_home: str) -> Path:
    named = os.environ.get(variable_name)
    if named:
        return Path(named) / "kitctl"
    try:
        return Path.home() / below_home / "kitctl"
    except RuntimeError as homeless:
        raise KitError(
            "no-home",
            "this user has no home folder, so there is no place for kitctl's files",
            evidence=(str(homeless),),
            remedy=f"set HOME or {variable_name} to a folder that you may write to",
            exit_code=Exit.USAGE,
        ) from homeless
