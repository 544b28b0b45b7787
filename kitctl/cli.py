"""Argv in; text or JSON and an exit code out. The only module that prints."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from kitctl import __version__
from kitctl.errors import Exit, KitError
from kitctl.result import Context, Result, shown


class Command(NamedTuple):
    """A verb: the module that does it, and the line that ``kitctl --help`` shows."""

    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "setup": Command(
        "kitctl.commands.setup", "bring a bare host to Engine, buildx and compose; says first what it will do"
    ),
    "stacks": Command("kitctl.commands.stacks", "list the serving configurations"),
    "overlays": Command("kitctl.commands.overlays", "list the kinds of host"),
    "doctor": Command(
        "kitctl.commands.doctor", "probe the host and print every cause of a failed or slow start"
    ),
    "topo": Command("kitctl.commands.topo", "draw how the GPUs are linked and which go best together"),
    "plan": Command(
        "kitctl.commands.plan", "decide what would run on this host and whether it can; starts nothing"
    ),
    "render": Command("kitctl.commands.render", "write the plan as files that run without kitctl"),
    "lint": Command("kitctl.commands.lint", "find what Kubernetes would accept and then never run rightly"),
    "up": Command("kitctl.commands.up", "check, fetch, build, start, and wait until the stack truly answers"),
    "down": Command("kitctl.commands.down", "stop a stack; leave no container, network or port behind"),
    "restart": Command(
        "kitctl.commands.restart", "stop and start the same container, and wait until it answers"
    ),
    "diagnose": Command(
        "kitctl.commands.diagnose", "name the failure in a log or of a stack, with evidence and remedy"
    ),
    "runs": Command("kitctl.commands.runs", "run records: what was up, by which plan, and how it ended"),
    "watch": Command("kitctl.commands.watch", "report a stack's changes of state as they come"),
    "ps": Command("kitctl.commands.ps", "list the stacks on this engine"),
    "status": Command("kitctl.commands.status", "tell the truth about one stack"),
    "logs": Command("kitctl.commands.logs", "show what the engine said"),
    "wait": Command("kitctl.commands.wait", "return when a stack answers, or say why it will not"),
    "bench": Command("kitctl.commands.bench", "measure throughput and latency over concurrency"),
    "accept": Command(
        "kitctl.commands.accept", "measure what a drafter brings, and whether it changes answers"
    ),
    "quality": Command("kitctl.commands.quality", "score exact answers, so that worse answers are seen"),
    "compare": Command(
        "kitctl.commands.compare", "compare results: tables, plots, and a gate against regressions"
    ),
    "campaign": Command("kitctl.commands.campaign", "many stacks, unattended: one report, a recommendation"),
    "tune": Command("kitctl.commands.tune", "search a stack's settings for the best at one concurrency"),
    "build": Command("kitctl.commands.build", "build an engine image from its pin set, test and record it"),
    "check": Command("kitctl.commands.check", "the launch line judged by the pinned engine's own parser"),
    "images": Command("kitctl.commands.images", "what the kit can build: list, lock, smoke, diff"),
    "bundle": Command(
        "kitctl.commands.bundle", "images, models, caches and kitctl for a host without network"
    ),
    "verify": Command("kitctl.commands.verify", "image, models and kit proven against the locks"),
    "schema": Command(
        "kitctl.commands.schema", "the JSON Schemas of the files that users write, for editors"
    ),
    "completion": Command("kitctl.commands.completion", "Tab in bash, zsh and fish"),
    "models": Command("kitctl.commands.models", "the model store: lock, pull, verify, inspect, prune"),
}


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser of kitctl; only the chosen command's own module is imported."""
    parser = argparse.ArgumentParser(
        prog="kitctl",
        description="Serve the largest open models on your own GPUs, reproducibly.",
        epilog="Every option has a KITCTL_* variable (--store: KITCTL_STORE). See 'kitctl COMMAND --help'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kitctl {__version__}")
    verbs = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        verb = verbs.add_parser(name, help=command.summary, description=command.summary, allow_abbrev=False)
        if name == chosen:
            _add_common(verb)
            importlib.import_module(command.module).add_arguments(verb)
            _add_common_below(verb)
    return parser


def _add_common(parser: argparse.ArgumentParser, **default: Any) -> None:
    common = parser.add_argument_group("common")
    common.add_argument(
        "--kit", metavar="DIR", help="the kit's folder (default: nearest with a models.lock)", **default
    )
    common.add_argument(
        "--host", metavar="URL", help="the container engine, as DOCKER_HOST or a context name", **default
    )
    common.add_argument("--json", action="store_true", help="print one JSON object to stdout", **default)
    common.add_argument("--quiet", "-q", action="store_true", help="no progress on stderr", **default)


def _add_common_below(parser: argparse.ArgumentParser) -> None:
    """The same options behind a sub-command (``models list --json``); unset, they leave the verb's value."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                inner.allow_abbrev = False
                if "--json" not in inner._option_string_actions:
                    _add_common(inner, default=argparse.SUPPRESS)


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    from kitctl.edge.completion import answer, is_asked, line_words
    from kitctl.edge.signals import interrupt_on_sigterm, leave_closed_pipe, open_closed_streams

    if is_asked():
        answer(build_parser(next((word for word in line_words() if word in COMMANDS), None)))
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in _split_engine_flags(words)[0]
    open_closed_streams()
    interrupt_on_sigterm()
    try:
        code = int(_run(words))
        sys.stdout.flush()
        return code
    except KitError as failed:
        _print_failure(failed, as_json=as_json)
        return int(failed.exit_code)
    except KeyboardInterrupt:
        _say("interrupted")
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        leave_closed_pipe(sys.stdout)
        return int(Exit.OK)
    except Exception:
        return _report_bug(words)


def _run(words: list[str]) -> int:
    from kitctl.edge.environment import apply_environment, is_terminal, place_carried, use_engine

    own, passed = _split_engine_flags(words)
    chosen = next((word for word in own if not word.startswith("-")), None)
    parser = build_parser(chosen)
    if chosen in COMMANDS:
        apply_environment(parser, chosen)
    args = parser.parse_args(own)
    args.engine_flags = passed
    args.words = tuple(own)
    place_carried(args)
    use_engine(args.host)
    context = Context(
        say=_silent if args.quiet else _say,
        kit_dir=args.kit,
        engine=args.host,
        is_terminal=is_terminal(),
        as_json=args.json,
    )
    code = _run_elsewhere(words, args, context)
    if code is not None:
        return code
    result: Result = importlib.import_module(COMMANDS[args.command].module).run(args, context)
    _print_result(result, as_json=args.json)
    return result.exit


def _run_elsewhere(words: list[str], args: argparse.Namespace, context: Context) -> int | None:
    """The exit code of the command on the host that ``--host`` names; ``None`` when it is this machine's to do."""
    from kitctl.edge.environment import engine_elsewhere

    address = engine_elsewhere()
    if address is None:
        return None
    from kitctl.commands.remote import run_there

    return run_there(address, words, args, context)


def _split_engine_flags(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Words before ``--`` are kitctl's; those after it are the engine's."""
    if "--" not in words:
        return words, ()
    cut = words.index("--")
    return words[:cut], tuple(words[cut + 1 :])


def _say(line: str) -> None:
    """Talk to the person; a reader who went away stops no work."""
    try:
        print(shown(line), file=sys.stderr, flush=True)
    except OSError:
        from kitctl.edge.signals import leave_closed_pipe

        leave_closed_pipe(sys.stderr)


def _silent(line: str) -> None:
    del line


def _print_result(result: Result, *, as_json: bool) -> None:
    if as_json and result.records is not None:
        for record in result.records:
            print(json.dumps(record, allow_nan=False))
        return
    if as_json and result.stream is None:
        print(to_json(result.data))
        return
    for line in result.lines:
        print(shown(line))
    for line in result.stream or ():
        print(line, flush=True)


def to_json(data: Mapping[str, Any]) -> str:
    """Strict JSON, stable key order as given; refuses NaN and infinities."""
    return json.dumps(data, indent=2, allow_nan=False)


def _print_failure(failed: KitError, *, as_json: bool) -> None:
    if as_json:
        body = {
            "schema": "kitctl.error/1",
            "code": failed.code,
            "cause": failed.cause,
            "evidence": list(failed.evidence),
            "remedy": failed.remedy,
            "exit": int(failed.exit_code),
        }
        print(to_json(body))
    _say(f"kitctl: {failed.cause} ({failed.code})")
    for line in failed.evidence:
        _say(f"  seen: {line}")
    _say(f"  do:   {failed.remedy}")


def _report_bug(words: list[str]) -> int:
    from kitctl.edge.bug_report import write_bug_report

    path = write_bug_report(words)
    _say(f"kitctl: this is a bug in kitctl; the report is {path}")
    return int(Exit.BUG)
