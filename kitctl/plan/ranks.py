"""How does a plan become one rank's of several hosts, and are the ranks' plans one server's?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.plan.rank import Rank
from kitctl.plan.types import Plan

_RANK_FLAG = "--node-rank"
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def as_rank(plan: Plan, rank: Rank) -> Plan:
    """The plan of one rank. On the host's own network, where ranks meet, it binds where it is published.

    Rank 0 answers there; the engine answers /health alone on the others. Raises KitError ``addon-with-ranks`` (exit 2)
    for an add-on whose services look for the engine on the project's own network.
    """
    if plan.addon_services:
        names = ", ".join(addon.name for addon in plan.addon_services)
        raise KitError(
            "addon-with-ranks",
            f"the services {names} of the add-ons would not find an engine that spans several hosts",
            remedy="leave --add out with --nodes and --nnodes",
            exit_code=Exit.USAGE,
        )
    published = replace(plan.published, container_port=plan.published.port)
    argv = _with_value(plan.argv, "--host", published.bind)
    argv = _with_value(argv, "--port", str(published.port))
    more: tuple[str, ...] = (
        "--nnodes",
        str(rank.nodes),
        _RANK_FLAG,
        str(rank.number),
        "--dist-init-addr",
        rank.meeting,
    )
    if not any(word.partition("=")[0] == "--dist-timeout" for word in argv):
        more += ("--dist-timeout", str(rank.dist_timeout_s))
    gone = set(rank.not_across) - plan.stack.environment.keys()
    kept = {name: value for name, value in plan.environment.items() if name not in gone}
    environment = dict.fromkeys(_INTERFACES, rank.interface) | kept
    return replace(plan, argv=(*argv, *more), environment=environment, published=published, rank=rank)


def gpus_of_all(plan: Plan) -> int:
    """GPUs reserved on all hosts of the server together, each host giving as many."""
    return len(plan.gpus.ids) * (plan.rank.nodes if plan.rank else 1)


def _with_value(argv: tuple[str, ...], flag: str, value: str) -> tuple[str, ...]:
    place = argv.index(flag)
    return (*argv[: place + 1], value, *argv[place + 2 :])


def rank_differences(plans: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """In what the hosts' plans (``plan --json``, by host) are not those of one server; nothing when they are.

    Compared are the argv but for the rank, the image, and every model's commit. The first host's is the measure.
    """
    seen = {host: _shared(plan) for host, plan in plans.items()}
    first, *others = seen
    return tuple(
        f"{field}: {first} has {seen[first].get(field, 'none')}, {host} has {seen[host].get(field, 'none')}"
        for host in others
        for field in {**seen[first], **seen[host]}
        if seen[first].get(field) != seen[host].get(field)
    )


def _shared(plan: Mapping[str, Any]) -> dict[str, str]:
    shared = {"image": str(plan["image"]["reference"]), "overlays": " + ".join(plan["overlays"])}
    shared |= {f"model {m['role']}": f"{m['model']} at {m['commit']}" for m in plan["models"]}
    return shared | flag_values(plan["argv"])


def flag_values(argv: Sequence[str]) -> dict[str, str]:
    """Flags and their values, the rank's own left out."""
    found: dict[str, str] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            found[name] = value
        elif name:
            found[name] = f"{found[name]} {word}".strip()
    found.pop(_RANK_FLAG, None)
    return found
