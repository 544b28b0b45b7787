"""Which server is meant: a stack that is up, or an address? Shared by bench, accept and quality."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.bench.load import Target
from kitctl.edge.environment import variable
from kitctl.edge.files import read_text
from kitctl.edge.http_calls import call, served_models
from kitctl.edge.load_client import target_of, unreachable
from kitctl.edge.runs import list_records
from kitctl.errors import Exit, KitError
from kitctl.kit.near import did_you_mean
from kitctl.plan.names import project_name
from kitctl.plan.types import Request
from kitctl.watch.run_record import Outcome, RunRecord


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

    Raises KitError ``no-server`` (exit 2) when they name none or two, ``not-up`` (exit 3) for a stack that is not
    up, ``no-model`` (exit 10) when no name is given and the server lists none,
    ``server-unreachable`` (exit 10) when it does not answer.
    """
    if bool(args.stack) == bool(args.url):
        raise KitError(
            "no-server",
            "name one server: a stack that is up, or --url",
            remedy=f"kitctl {args.command} STACK, or kitctl {args.command} --url http://HOST:PORT",
            exit_code=Exit.USAGE,
        )
    record = find_run(args.stack, args.name) if args.stack else None
    url = record.url if record is not None else args.url
    key_file = args.api_key_file or (record.api_key_file if record is not None else None)
    key = read_text(key_file).strip() if key_file else variable("KITCTL_API_KEY")
    target = target_of(url, api_key=key, ca_file=args.ca_file, insecure=args.insecure)
    served = served_models(target)
    model = args.model or (record.served_model if record is not None else None) or (served or [None])[0]
    if model is None:
        status, text = call(target, "GET", "/v1/models")
        if status == 0:
            raise unreachable(target, text)
        raise KitError(
            "no-model",
            f"{url} lists no model",
            evidence=(f"GET /v1/models gave no list (HTTP {status})",),
            remedy="start the server, or name the model with --model NAME",
            exit_code=Exit.UNREACHABLE,
        )
    return Server(
        target=target,
        url=url,
        label=args.stack or f"{target.host}:{target.port}",
        model=model,
        served=served,
        record=msgspec.to_builtins(record) if record is not None else None,
    )


def other_server(name: str, args: argparse.Namespace) -> Server:
    """A second server by stack name or address, reached with the same key and certificates."""
    is_url = "://" in name or ":" in name
    own = {
        **vars(args),
        "stack": None if is_url else name,
        "url": name if is_url else None,
        "name": None,
        "model": None,
    }
    return choose_server(argparse.Namespace(**own))


def find_run(stack: str, name: str | None) -> RunRecord:
    """The newest run of a stack that is ready. Raises KitError ``not-up`` (exit 3)."""
    project = project_name(Request(stack=stack, name=name))
    ready = [record for record in list_records() if record.outcome is Outcome.READY]
    wanted = f"{stack}-{name}" if name else stack
    for record in ready:
        if record.project == project or (record.stack == stack and not name):
            return record
    names = [record.project.removeprefix("kitctl-") for record in ready]
    raise KitError(
        "not-up",
        f"no run of {wanted} is ready",
        evidence=(did_you_mean(wanted, names),),
        remedy=f"kitctl up {stack}, or give the server's address with --url",
        exit_code=Exit.REFUSED,
    )
