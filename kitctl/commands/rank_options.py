"""One rank of a server over several hosts: the options, spelled as SGLang's own, and what they make of a plan."""

from __future__ import annotations

import argparse
import ipaddress

from kitctl.commands.argument_types import count
from kitctl.edge.interfaces import interface_towards
from kitctl.edge.kubernetes_data import load_kubernetes_data
from kitctl.errors import Exit, KitError
from kitctl.plan.rank import Rank

MOST_NODES = 4


def add_rank_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of a verb that plans one rank."""
    ranks = parser.add_argument_group("several hosts without a cluster")
    ranks.add_argument(
        "--nnodes", type=_node_count, metavar="N", help=f"this host is one of N, 2 to {MOST_NODES}"
    )
    ranks.add_argument("--node-rank", type=count, metavar="R", help="which of them: 0 serves")
    add_meeting_arguments(ranks)


def add_meeting_arguments(ranks: argparse._ArgumentGroup) -> None:
    """Where the ranks meet."""
    ranks.add_argument(
        "--dist-init-addr", metavar="ADDR:PORT", help="rank 0's address and a free port there, for the others"
    )
    ranks.add_argument(
        "--interface",
        metavar="NAME",
        help="network device between the hosts (default: the one that leads to ADDR)",
    )


def rank_of(args: argparse.Namespace) -> Rank | None:
    """The rank that the options name; ``None`` without them. Raises KitError (exit 2 or 3)."""
    nnodes, number = getattr(args, "nnodes", None), getattr(args, "node_rank", None)
    if nnodes is None and number is None:
        return None
    if nnodes is None or number is None or not args.dist_init_addr or not 0 <= number < nnodes:
        raise KitError(
            "bad-rank",
            "one rank of several hosts is named by --nnodes, --node-rank and --dist-init-addr together",
            evidence=(f"given: {nnodes}, {number}, {args.dist_init_addr}",),
            remedy="for example --nnodes 2 --node-rank 1 --dist-init-addr 10.0.0.1:20000; or up --nodes does it all",
            exit_code=Exit.USAGE,
        )
    host, _ = read_meeting(args.dist_init_addr)
    interface = args.interface or interface_towards(host, holds=number == 0)
    return make_rank(nnodes, number, meeting=args.dist_init_addr, interface=interface)


def make_rank(nodes: int, number: int, *, meeting: str, interface: str) -> Rank:
    """The rank, with what the kit's data says of servers over several hosts."""
    _, settings = load_kubernetes_data()
    return Rank(
        nodes=nodes,
        number=number,
        meeting=meeting,
        interface=interface,
        dist_timeout_s=settings.dist_timeout_s,
        not_across=(*settings.single_host_environment, *settings.single_host_tuning),
    )


def read_meeting(text: str) -> tuple[str, int]:
    """Address and port. Raises KitError ``bad-meeting`` (exit 2) for a name: each host may resolve it otherwise."""
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        if not 0 < int(port) < 65536 or address.is_loopback or address.is_unspecified:
            raise ValueError
    except ValueError as bad:
        raise KitError(
            "bad-meeting",
            f"--dist-init-addr {text}: wanted are rank 0's address, as the other hosts reach it, and a port",
            remedy="for example --dist-init-addr 10.0.0.1:20000",
            exit_code=Exit.USAGE,
        ) from bad
    return str(address), int(port)


def _node_count(text: str) -> int:
    if text.isdigit() and 2 <= int(text) <= MOST_NODES:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text}: wanted are 2 to {MOST_NODES} hosts; more are a cluster's")
