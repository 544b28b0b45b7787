"""Which server is meant: a stack that is up, or an address? Shared by bench, accept and quality."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.bench.load import Target
from kitctl.commands.api_keys import client_key
from kitctl.commands.projects import running_container
from kitctl.commands.ready_runs import find_run, not_running, require_running, run_words
from kitctl.edge.http_calls import base_url, call, context_tokens, served_models
from kitctl.edge.load_client import target_of, unreachable
from kitctl.errors import Exit, KitError
from kitctl.plan.types import Request
from kitctl.watch.run_record import RunRecord


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server to measure. ``served``: the names it lists, ``None`` when it lists none. ``record``: its run record."""

    target: Target
    url: str
    label: str
    model: str
    served: tuple[str, ...] | None
    record: dict[str, Any] | None = None


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Name a server."""
    parser.add_argument("stack", metavar="STACK", nargs="?", help="a stack that is up")
    parser.add_argument("--name", metavar="NAME", help="the copy that was started under this name")
    parser.add_argument("--rehearse", action="store_true", help="the stack's rehearsal")
    parser.add_argument(
        "--url", metavar="URL", help="any OpenAI-compatible server instead, as http://HOST:PORT"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="the served name (default: the stack's, or the first listed)"
    )
    parser.add_argument(
        "--api-key-file", metavar="FILE", help="file that holds the key (or KITCTL_API_KEY itself)"
    )
    parser.add_argument("--ca-file", metavar="FILE", help="certificates to trust for https")
    parser.add_argument("--insecure", action="store_true", help="take any certificate")


def choose_server(args: argparse.Namespace) -> Server:
    """The server that the arguments of ``add_server_arguments`` name.

    Raises KitError ``no-server`` (exit 2) when they name none or two, ``bad-api-key`` (exit 2) for a key that is none,
    ``not-up`` (exit 3) for a stack that is not up, what ended it (exit 7) for one that died, ``no-model`` (exit 10)
    when no name is given and the server lists none, ``server-unreachable`` (exit 10) when it does not answer.
    """
    if bool(args.stack) == bool(args.url):
        raise KitError(
            "no-server",
            "name one server: a stack that is up, or --url",
            remedy=f"kitctl {args.command} STACK, or kitctl {args.command} --url http://HOST:PORT",
            exit_code=Exit.USAGE,
        )
    record = _run_of(args) if args.stack else None
    url = record.url if record is not None else args.url
    key_file = args.api_key_file or (record.api_key_file if record is not None else None)
    target = target_of(url, api_key=client_key(key_file), ca_file=args.ca_file, insecure=args.insecure)
    served = served_models(target)
    if served is None and record is not None:
        _require_answer(target, record)
    model = args.model or (record.served_model if record is not None else None) or (served or [None])[0]
    if model is None:
        raise _no_model(target, url, served)
    return Server(
        target=target,
        url=url,
        label=run_words(record) if record is not None else target.address,
        model=model,
        served=served,
        record=msgspec.to_builtins(record) if record is not None else None,
    )


def answer_limit(server: Server, asked: int | None, *, most: int) -> int:
    """Tokens an answer: as ``asked``, else ``most``, or half of the server's context length where that is less.

    Raises KitError ``answer-too-long`` (exit 2) for what leaves the prompt no room in that context.
    """
    context = context_tokens(server.target, server.model)
    if asked is None:
        return most if context is None else max(1, min(most, context // 2))
    if context is not None and asked >= context:
        raise KitError(
            "answer-too-long",
            f"answers of {asked} tokens leave the prompt no room in the context of {context} tokens",
            remedy=f"--output-tokens {context // 2}, or leave it out",
            exit_code=Exit.USAGE,
        )
    return asked


def _run_of(args: argparse.Namespace) -> RunRecord:
    record = find_run(Request(stack=args.stack, name=args.name, rehearse=args.rehearse), args.kit)
    require_running(record)
    return record


def _require_answer(target: Target, record: RunRecord) -> None:
    """Raises what ended the run where nothing answers any more: its container is gone."""
    if call(target, "GET", "/v1/models")[0] == 0:
        container = running_container(record.project)
        if container is None or not container.is_running:
            raise not_running(record)


def _no_model(target: Target, url: str, served: tuple[str, ...] | None) -> KitError:
    status, text = call(target, "GET", "/v1/models")
    if status == 0:
        return unreachable(target, text)
    cause = f"{url} answers, but not as an OpenAI-compatible server does"
    remedy = "give the model server's own address with --url, or the name that it serves with --model NAME"
    if 300 <= status < 400:
        cause = f"{url} answers, but only sends its callers on: {text}"
    elif served is not None:
        cause, remedy = f"{url} lists no model", "load a model there, or name one with --model NAME"
    elif status in (401, 403):
        cause, remedy = f"{url} wants a key", "give it with --api-key-file FILE or KITCTL_API_KEY"
    return KitError(
        "no-model",
        cause,
        evidence=(f"GET {base_url(target)}/v1/models: HTTP {status}",),
        remedy=remedy,
        exit_code=Exit.UNREACHABLE,
    )


def is_address(name: str) -> bool:
    """Whether a word that may name a stack or an address is an address."""
    return ":" in name


def other_server(name: str, args: argparse.Namespace, *, copy: str | None, option: str) -> Server:
    """A second server by address, or by stack name and the ``--name`` of its ``copy``; key and certificates are the
    first one's.

    Raises KitError as ``choose_server`` does; what it says of a stack that is not up speaks of ``option``.
    """
    own = {
        **vars(args),
        "stack": None if is_address(name) else name,
        "url": name if is_address(name) else None,
        "name": copy,
        "rehearse": False,
        "model": None,
    }
    try:
        return choose_server(argparse.Namespace(**own))
    except KitError as failed:
        if failed.code != "not-up":
            raise
        raise _other_not_up(failed, option) from failed


def _other_not_up(failed: KitError, option: str) -> KitError:
    return KitError(
        "not-up",
        f"{option}: {failed.cause}",
        evidence=failed.evidence,
        remedy=f"give {option} a stack that 'kitctl ps' prints, with {option}-name NAME for a copy, or an address",
        exit_code=Exit.REFUSED,
    )
