"""``--host`` names a host that ssh reaches: this very kitctl runs there, and this process is its terminal."""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets

from kitctl.edge.environment import config_dir, forwarded_variables
from kitctl.edge.files import absolute, is_there, require_place
from kitctl.edge.kit_files import find_kit
from kitctl.edge.package_data import package_text
from kitctl.edge.remote_follow import Job, follow_job
from kitctl.edge.remote_pack import key_of, kit_files, option_files, pack, size_of
from kitctl.errors import Exit, KitError
from kitctl.host.remote_address import SshHost, read_address
from kitctl.kit.remote_verbs import Kind, LineTimes, RemoteVerb, find_verb, read_remote_book
from kitctl.result import Context

_MIB = 1024 * 1024


def run_there(address: str, words: list[str], args: argparse.Namespace, context: Context) -> int | None:
    """The exit code of ``kitctl WORDS`` on the host of ``address``; ``None`` for what is to run here.

    Raises KitError (exit 2 and 10) for a host that kitctl cannot work on.
    """
    book = read_remote_book(package_text("remote.toml"))
    verb = find_verb(book, args.command, _sub_verb(args))
    if verb.kind is Kind.HERE or _reads_a_file_alone(args) or _names_hosts_itself(args):
        return None
    host = read_address(address, api_is_enough=verb.api)
    if host is None:
        return None
    job = make_job(host, tuple(words), args, verb, kit_dir=find_kit(context.kit_dir), times=book.line)
    ended = follow_job(host, job, times=book.line, say=context.say)
    if verb.serves and not getattr(args, "nnodes", None) and ended.exit_code in (Exit.OK, Exit.GATE):
        for port in ended.ports:
            context.say(f"from here: ssh -N -L {port}:127.0.0.1:{port} {host.words}")
    return ended.exit_code


def _sub_verb(args: argparse.Namespace) -> str | None:
    found = getattr(args, "verb", None) or getattr(args, "models_command", None)
    return str(found) if found else None


def _reads_a_file_alone(args: argparse.Namespace) -> bool:
    """Whether the verb judges a file of this machine, or its standard input, and asks no host."""
    if args.command == "diagnose":
        return bool(args.stack == "-" or args.file or is_there(args.stack))
    return args.command == "topo" and bool(args.file or args.facts)


def _names_hosts_itself(args: argparse.Namespace) -> bool:
    """Whether ``--nodes`` says where the verb acts; for ``render`` it is a number."""
    return isinstance(getattr(args, "nodes", None), str)


def make_job(
    host: SshHost,
    words: tuple[str, ...],
    args: argparse.Namespace,
    verb: RemoteVerb,
    *,
    kit_dir: str,
    times: LineTimes,
) -> Job:
    """The command as a job for the host: its words, the kit, and the files of this machine that it names.

    Raises KitError ``too-much-to-carry`` or ``no-such-folder`` (exit 2).
    """
    if verb.kind is Kind.MEASURE and "output" in verb.writes:
        require_place(args.output)
    files = kit_files(kit_dir)
    places = {"config": config_dir()} if verb.config else {}
    shown = {"kit": kit_dir, "config": config_dir()}
    options: dict[str, dict[str, str]] = {"kit": {args.kit: "kit"} if args.kit else {}}
    for number, (option, typed) in enumerate(_given(args, (*verb.reads, *verb.writes))):
        found = option_files(typed, f"files/{number}/{_last_part(typed)}")
        if not found and option not in verb.writes:
            continue
        place = f"files/{number}/{_last_part(typed)}"
        files |= found
        options.setdefault(option, {})[typed] = place
        shown[place] = typed
        if option in verb.writes:
            places[place] = absolute(typed)
    _require_light(size_of(files), times.carried_mib)
    name = hashlib.sha256(json.dumps([words, key_of(files)]).encode()).hexdigest()[:16]
    looks = verb.kind is Kind.LOOK
    return Job(
        job=f"{args.command}-{secrets.token_hex(8) if looks else name}",
        argv=words,
        options=options,
        places=places,
        shown=shown,
        env=forwarded_variables() | ({"DOCKER_HOST": f"unix://{host.socket}"} if host.socket else {}),
        carried=pack(files),
        kept=verb.kind is Kind.MEASURE,
        abandoned_s=times.abandoned_s if looks else 0.0,
        extras=frozenset({"tune"} if args.command == "tune" else ()),
    )


def _given(args: argparse.Namespace, options: tuple[str, ...]) -> list[tuple[str, str]]:
    """Option and value of those that were given."""
    found = [(option, getattr(args, option, None)) for option in options]
    return [(option, value) for option, value in found if isinstance(value, str) and value]


def _last_part(path: str) -> str:
    return absolute(path).rpartition("/")[2] or "root"


def _require_light(size_bytes: int, limit_mib: int) -> None:
    if size_bytes > limit_mib * _MIB:
        raise KitError(
            "too-much-to-carry",
            f"the kit and the files named hold {size_bytes / _MIB:.0f} MiB, and {limit_mib} MiB travel at most",
            remedy="name a folder of its own for output; a model store is named by --store and lies on the host",
            exit_code=Exit.USAGE,
        )
