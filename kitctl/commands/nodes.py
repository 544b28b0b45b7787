"""``--nodes``: one server over two to four hosts that ssh reaches; nothing schedules, SGLang's own ranks meet."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import msgspec

from kitctl.commands.rank_options import read_meeting
from kitctl.edge.kubernetes_data import load_kubernetes_data
from kitctl.edge.node_runs import Ended, NodeRuns, address_of, run_on_all
from kitctl.edge.signals import uninterrupted
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, finding_lines
from kitctl.plan.node_list import Node, read_nodes, without_option
from kitctl.plan.ranks import rank_differences
from kitctl.result import Context, Result

SCHEMA = "kitctl.nodes/1"
_OWN = ("--nodes", "--host", "--dist-init-addr")
_FLAGS = ("--json", "--dry-run", "--quiet", "-q")


def up_on_nodes(args: argparse.Namespace, context: Context) -> Result:
    """Plan on all hosts, compare, start all ranks together; whichever fails first ends all, and is the cause.

    Raises KitError (exit 2, 3).
    """
    nodes = read_nodes(args.nodes)
    words = _words_by_node(nodes, args)
    look = ("--dry-run", "--json") if args.dry_run else ("--dry-run", "--json", "--replace")
    planned = run_on_all({n: (*w, *look) for n, w in words.items()}, say=_silent)
    refused = _refusal(planned, args.stack)
    if refused or args.dry_run:
        return refused or _result(
            args.stack, "would-start", planned, ("all hosts plan the same: would start",)
        )
    require_one_server(nodes, planned)
    _take_down_halves(nodes, args, context)
    ended, first = _start_all(words, context)
    if first is not None:
        with uninterrupted():
            run_on_all(_words_of("down", nodes, args), say=_silent)
        return _failed(args.stack, ended, first)
    differences = rank_differences({name: _live(end) for name, end in ended.items()})
    if differences:
        with uninterrupted():
            run_on_all(_words_of("down", nodes, args), say=_silent)
        raise _not_one_server(differences)
    return _ready(args.stack, nodes, ended)


def down_on_nodes(args: argparse.Namespace, context: Context) -> Result:
    """Stop all ranks together. The exit code is that of the first host where it failed."""
    nodes = read_nodes(args.nodes)
    ended = run_on_all(
        {n: (*w, "--json") for n, w in _words_of("down", nodes, args).items()}, say=context.say
    )
    lines = tuple(f"{name}: {_outcome(end)}" for name, end in ended.items())
    return _result(args.stack, "stopped", ended, lines, exit_code=_worst(ended))


def status_on_nodes(args: argparse.Namespace, context: Context) -> Result:
    """Each rank's status. The exit code is that of the first host whose rank is not well."""
    del context
    nodes = read_nodes(args.nodes)
    ended = run_on_all({n: (*w, "--json") for n, w in _words_of("status", nodes, args).items()}, say=_silent)
    lines = tuple(f"{node.name}: rank {node.rank}, {_state(ended[node.name])}" for node in nodes)
    return _result(args.stack, "status", ended, lines, exit_code=_worst(ended))


def watch_on_nodes(args: argparse.Namespace, context: Context) -> Result:
    """Report every rank's changes; when the first is dead or gone, stop all, and tell what the first died of."""
    nodes = read_nodes(args.nodes)
    runs = NodeRuns(
        {n: (*w, "--once") for n, w in _words_of("watch", nodes, args).items()}, say=context.say, shown=True
    )
    try:
        first = next(iter(runs.ends()))
    except KeyboardInterrupt:
        runs.stop()
        raise
    with uninterrupted():
        runs.stop()
        for _ in runs.ends():
            pass
    if first.exit_code == Exit.UNREACHABLE:
        return _lost_sight(args.stack, first)
    with uninterrupted():
        node = next(one for one in nodes if one.name == first.name)
        named = run_on_all(
            {first.name: ("diagnose", *_project_words(args), "--host", node.address, "--json")}, say=_silent
        )[first.name]
        run_on_all(_words_of("down", nodes, args), say=context.say)
    lines = (
        *_diagnosis_lines(first.name, named.data),
        f"{args.stack}: rank {node.rank} on {first.name} ended first; all ranks were stopped",
    )
    data = {"first": first.name, "diagnoses": (named.data or {}).get("diagnoses", [])}
    return _result(args.stack, "ended", {}, lines, exit_code=Exit.CRASHED, **data)


def _lost_sight(stack: str, first: Ended) -> Result:
    """A host that is not reached may run on well: nothing is stopped."""
    lines = (
        f"{first.name} is not reached any more; the ranks of {stack} were left as they are",
        "  do:   the same command again, once ssh reaches it",
    )
    return _result(stack, "unwatched", {}, lines, exit_code=Exit.UNREACHABLE, first=first.name)


def _words_by_node(nodes: tuple[Node, ...], args: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """``up`` with the rank of each host, and the words that were typed."""
    words: tuple[str, ...] = args.words
    for option in _OWN:
        words = without_option(words, option)
    words = tuple(word for word in words if word not in _FLAGS)
    passed = ("--", *args.engine_flags) if args.engine_flags else ()
    meeting = args.dist_init_addr or _meeting_at(nodes[0])
    read_meeting(meeting)
    return {
        node.name: (
            *words, "--host", node.address, "--nnodes", str(len(nodes)), "--node-rank", str(node.rank),
            "--dist-init-addr", meeting, *passed,
        )
        for node in nodes
    }  # fmt: skip


def _meeting_at(node: Node) -> str:
    """Rank 0's address as ssh knows it, and the port of the kit's data."""
    address = address_of(node.host.words)
    if address is None:
        raise KitError(
            "bad-meeting",
            f"the address of {node.name}, where the ranks are to meet, is not known here",
            remedy="name it: --dist-init-addr ADDR:PORT",
            exit_code=Exit.USAGE,
        )
    port = load_kubernetes_data()[1].dist_port
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _project_words(args: argparse.Namespace) -> tuple[str, ...]:
    name = ("--name", args.name) if args.name else ()
    return (args.stack, *name, *(("--rehearse",) if args.rehearse else ()))


def _words_of(verb: str, nodes: tuple[Node, ...], args: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    kit = ("--kit", args.kit) if args.kit else ()
    return {node.name: (verb, *_project_words(args), *kit, "--host", node.address) for node in nodes}


def _refusal(planned: Mapping[str, Ended], stack: str) -> Result | None:
    """All hosts' findings when one of them refuses; ``None`` when none does."""
    if all(end.exit_code == Exit.OK for end in planned.values()):
        return None
    lines = [f"{name}: {line}" for name, end in planned.items() for line in _why(end)]
    lines.append(f"{stack}: refused; nothing was fetched, built or started on any host")
    return _result(stack, "refused", planned, tuple(lines), exit_code=_worst(planned))


def _why(end: Ended) -> list[str]:
    data = end.data or {}
    if "cause" in data:
        return [f"{data['cause']} ({data['code']})", *(f"  do:   {data['remedy']}",)]
    findings = [msgspec.convert(one, Finding) for one in (data.get("plan") or {}).get("findings", [])]
    return finding_lines(findings) if end.exit_code != Exit.OK else []


def require_one_server(nodes: tuple[Node, ...], planned: Mapping[str, Ended]) -> None:
    """Return when all hosts plan the same but for the rank, and hold the same image.

    Raises KitError ``not-one-server`` or ``image-not-on-all`` (exit 3).
    """
    plans = {name: (end.data or {})["plan"] for name, end in planned.items()}
    differences = rank_differences(plans)
    if differences:
        raise _not_one_server(differences)
    seen = {name: (end.data or {}).get("image_identity") for name, end in planned.items()}
    if len(set(seen.values())) == 1 and None not in seen.values():
        return
    image = plans[nodes[0].name]["image"]["reference"]
    holder = next((node for node in nodes if seen[node.name]), None)
    lacking = next((n for n in nodes if holder is None or seen[n.name] != seen[holder.name]), nodes[0])
    copy = (
        f"docker -H {holder.host.address} save {image} | docker -H {lacking.host.address} load"
        if holder
        else None
    )
    raise KitError(
        "image-not-on-all",
        f"the image {image} is not the same on all hosts",
        evidence=tuple(f"{name}: {(identity or 'not there')[:12]}" for name, identity in seen.items()),
        remedy=copy or f"kitctl build --host {nodes[0].address}, then copy it with docker save and load",
        exit_code=Exit.REFUSED,
    )


def _take_down_halves(nodes: tuple[Node, ...], args: argparse.Namespace, context: Context) -> None:
    """Ranks that are up while others are not belong to a start that ended: they are taken down first."""
    seen = run_on_all({n: (*w, "--json") for n, w in _words_of("status", nodes, args).items()}, say=_silent)
    lives = {name for name, end in seen.items() if end.exit_code == Exit.OK}
    there = {name for name, end in seen.items() if (end.data or {}).get("code") != "not-up"}
    if there and lives != set(seen):
        context.say(f"not all ranks are up ({', '.join(sorted(there))} is there): taking down what is left")
        run_on_all(_words_of("down", nodes, args), say=_silent)


def _start_all(
    words: Mapping[str, tuple[str, ...]], context: Context
) -> tuple[dict[str, Ended], Ended | None]:
    """All ranks' ends, and the first that failed; at its end the others are stopped."""
    runs = NodeRuns({name: (*w, "--json") for name, w in words.items()}, say=context.say)
    ended: dict[str, Ended] = {}
    first: Ended | None = None
    interrupted = False
    while len(ended) < len(words):
        try:
            for end in runs.ends():
                ended[end.name] = end
                if end.exit_code not in (Exit.OK, Exit.GATE) and first is None and not interrupted:
                    first = end
                    context.say(f"{end.name} failed; stopping the other ranks")
                    runs.stop()
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            runs.stop()
    if interrupted:
        raise KeyboardInterrupt
    return ended, first


def _live(end: Ended) -> dict[str, Any]:
    """What a rank that is up says of its plan, image and models, in the shape of a plan."""
    data = end.data or {}
    plan = data["plan"]
    if "argv_live" not in data:
        return dict(plan)
    models = [{**one, "commit": one.get("commit") or one.get("content_hash")} for one in data["models"]]
    return {
        **plan,
        "argv": data["argv_live"],
        "models": models,
        "image": {"reference": data["image_identity"]},
    }


def _ready(stack: str, nodes: tuple[Node, ...], ended: Mapping[str, Ended]) -> Result:
    data = ended[nodes[0].name].data or {}
    url = str(data.get("url"))
    port = url.rpartition(":")[2]
    lines = (
        f"{stack} answers at {url} of {nodes[0].name}, {len(nodes)} ranks on {', '.join(n.name for n in nodes)}",
        f"  from here: ssh -N -L {port}:127.0.0.1:{port} {nodes[0].host.words}",
    )
    return _result(stack, "ready", ended, lines, exit_code=_worst(ended), url=url)


def _failed(stack: str, ended: Mapping[str, Ended], first: Ended) -> Result:
    diagnosed = _diagnosis_lines(first.name, first.data)
    lines = (
        *(diagnosed or (f"{first.name}: {line}" for line in _why(first))),
        f"{stack}: {first.name} failed first (exit {first.exit_code}); all ranks were stopped",
    )
    code = Exit(first.exit_code) if first.exit_code in set(Exit) else Exit.BUG
    diagnoses = (first.data or {}).get("diagnoses", [])
    return _result(stack, "failed", ended, lines, exit_code=code, first=first.name, diagnoses=diagnoses)


def _diagnosis_lines(name: str, data: dict[str, Any] | None) -> tuple[str, ...]:
    from kitctl.watch.diagnose import Diagnosis, diagnosis_lines

    found = [msgspec.convert(one, Diagnosis) for one in (data or {}).get("diagnoses", [])]
    return tuple(f"{name}: {line}" for line in diagnosis_lines(tuple(found)))


def _not_one_server(differences: tuple[str, ...]) -> KitError:
    return KitError(
        "not-one-server",
        "the hosts would not run the same server",
        evidence=differences,
        remedy="name what differs (--gpus, --overlay, --store, --set), or mend the host that is unlike the others",
        exit_code=Exit.REFUSED,
    )


def _outcome(end: Ended) -> str:
    data = end.data or {}
    return str(data.get("outcome") or data.get("cause") or f"exit {end.exit_code}")


def _state(end: Ended) -> str:
    data = end.data or {}
    return f"{data['state']}, {data['url']}" if "state" in data else _outcome(end)


def _worst(ended: Mapping[str, Ended]) -> Exit:
    codes = [end.exit_code for end in ended.values() if end.exit_code]
    return Exit(codes[0]) if codes and codes[0] in set(Exit) else Exit.BUG if codes else Exit.OK


def _result(
    stack: str,
    outcome: str,
    ended: Mapping[str, Ended],
    lines: tuple[str, ...],
    *,
    exit_code: Exit = Exit.OK,
    **more: object,
) -> Result:
    nodes = [{"name": name, "exit": end.exit_code, "result": end.data} for name, end in ended.items()]
    data = {"schema": SCHEMA, "stack": stack, "outcome": outcome, "nodes": nodes, **more}
    return Result(data=data, lines=lines, exit=exit_code)


def _silent(line: str) -> None:
    del line
