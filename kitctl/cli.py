"""Argv in; text or JSON and an exit code out. The only module that prints."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from kitctl import __version__
from kitctl.commands.argument_types import filled
from kitctl.errors import Exit, KitError, is_interrupt
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
    "runs": Command(
        "kitctl.commands.runs", "run records (list, show, diff): what was up, by which plan, how it ended"
    ),
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


class _WrongUsage(SystemExit):
    """What argparse refuses, told on stderr already."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(int(Exit.USAGE))
        self.failure = KitError(
            "wrong-usage", f"wrong usage: {message}", remedy=f"{program} --help", exit_code=Exit.USAGE
        )


class _StreamEnded(KeyboardInterrupt):
    """An interrupt while lines were being printed as they came: they are what the command had to say."""


class _Parser(argparse.ArgumentParser):
    """Refuses as argparse does, and keeps what it refused; help that cannot be written is told."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        _say(f"{self.prog}: error: {message}")
        raise _WrongUsage(message, self.prog)

    def _print_message(self, message: str, file: Any = None) -> None:
        from kitctl.edge.stdout import writing_stdout

        if file is not sys.stdout:
            super()._print_message(message, file)
            return
        with writing_stdout():
            file.write(message)


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser of kitctl; only the chosen command's own module is imported."""
    parser = _Parser(
        prog="kitctl",
        description="Serve the largest open models on your own GPUs, reproducibly.",
        epilog="Every option has a KITCTL_* variable (--store: KITCTL_STORE). See 'kitctl COMMAND --help'. "
        "--json, --quiet, --kit and --host may stand before COMMAND, too.",
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
            _refuse_empty_values(verb)
    return parser


def _verb_parser(parser: argparse.ArgumentParser, verb: str) -> argparse.ArgumentParser:
    """The parser of a verb, whose usage a person wants to see who used it wrongly."""
    verbs = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    found: argparse.ArgumentParser = verbs.choices[verb]
    return found


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


def _refuse_empty_values(parser: argparse.ArgumentParser) -> None:
    """No text that a command takes may be empty, be it an option's, a word's or a ``KITCTL_*`` variable's."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _refuse_empty_values(inner)
        elif action.nargs != 0 and action.type is None and action.choices is None:
            action.type = filled


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    from kitctl.edge.completion import answer, is_asked, line_words
    from kitctl.edge.environment import is_on
    from kitctl.edge.signals import forget_unhandled_interrupt, interrupt_on_sigterm, open_closed_streams
    from kitctl.edge.stdout import end_stdout

    if is_asked():
        answer(build_parser(next((word for word in line_words() if word in COMMANDS), None)))
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in _split_engine_flags(words)[0] or is_on("KITCTL_JSON")
    open_closed_streams()
    interrupt_on_sigterm()
    try:
        return _run_and_flush(words)
    except KitError as failed:
        _print_failure(failed, as_json=as_json)
        return int(failed.exit_code)
    except _WrongUsage as wrong:
        _print_error(wrong.failure, as_json=as_json)
        return int(Exit.USAGE)
    except BrokenPipeError:
        return int(Exit.OK)
    except (Exception, KeyboardInterrupt) as failed:
        if not is_interrupt(failed):
            return _report_bug(words, as_json=as_json)
        _say("interrupted")
        _print_error(_interrupted(), as_json=as_json and not isinstance(failed, _StreamEnded))
        return int(Exit.INTERRUPTED)
    finally:
        end_stdout()
        forget_unhandled_interrupt()


def _run_and_flush(words: list[str]) -> int:
    from kitctl.edge.stdout import flush_stdout

    try:
        code = int(_run(words))
    except SystemExit:
        flush_stdout()
        raise
    flush_stdout()
    return code


def _run(words: list[str]) -> int:
    from kitctl.edge.environment import apply_environment, is_terminal, place_carried, use_engine

    words = _verb_first(words)
    own, passed = _split_engine_flags(words)
    chosen = next((word for word in own if not word.startswith("-")), None)
    parser = build_parser(chosen)
    if chosen in COMMANDS:
        apply_environment(parser, chosen)
    args, left = parser.parse_known_args(own)
    if left:
        unknown = [word for word in left if word.startswith("-")] or left
        _verb_parser(parser, args.command).error(f"unrecognized arguments: {' '.join(unknown)}")
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


def _verb_first(words: list[str]) -> list[str]:
    """The same words, with common options that stand before the verb behind it."""
    own = list(words)
    early: list[str] = []
    while own and own[0].partition("=")[0] in ("--json", "--quiet", "-q", "--kit", "--host"):
        takes = 2 if own[0] in ("--kit", "--host") else 1
        early += own[:takes]
        del own[:takes]
    return [*own[:1], *early, *own[1:]] if own else early


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
    from kitctl.edge.stdout import writing_stdout

    if as_json and result.records is not None:
        lines: Iterable[str] = (json.dumps(record, allow_nan=False) for record in result.records)
    else:
        lines = (to_json(result.data),) if as_json and result.stream is None else map(shown, result.lines)
    for line in lines:
        with writing_stdout():
            print(line)
    if result.stream is not None:
        _print_stream(result.stream)


def _print_stream(lines: Iterable[str]) -> None:
    from kitctl.edge.stdout import writing_stdout

    try:
        for line in lines:
            with writing_stdout():
                print(shown(line), flush=True)
    except KeyboardInterrupt as stopped:
        raise _StreamEnded from stopped


def to_json(data: Mapping[str, Any]) -> str:
    """Strict JSON, stable key order as given; refuses NaN and infinities."""
    return json.dumps(data, indent=2, allow_nan=False)


def _print_failure(failed: KitError, *, as_json: bool) -> None:
    _print_error(failed, as_json=as_json)
    head, *more = failed.lines()
    for line in (f"kitctl: {head}", *more):
        _say(line)


def _print_error(failed: KitError, *, as_json: bool) -> None:
    """The failure as one JSON object, for who asked for JSON; what stdout refuses now is lost."""
    if not as_json:
        return
    body = {"schema": "kitctl.error/1", **failed.fields(), "exit": int(failed.exit_code)}
    with suppress(OSError):
        print(to_json(body))


def _interrupted() -> KitError:
    return KitError(
        "interrupted", "interrupted", remedy="run the same command again", exit_code=Exit.INTERRUPTED
    )


def _report_bug(words: list[str], *, as_json: bool) -> int:
    from kitctl.edge.bug_report import write_bug_report

    path = write_bug_report(words)
    _say(f"kitctl: this is a bug in kitctl; the report is {path}")
    bug = KitError(
        "kitctl-bug",
        "this is a bug in kitctl",
        evidence=(f"the report is {path}",),
        remedy="send that report to whoever keeps your kitctl",
        exit_code=Exit.BUG,
    )
    _print_error(bug, as_json=as_json)
    return int(Exit.BUG)
