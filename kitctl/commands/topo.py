"""``kitctl topo``: how the GPUs are linked, what that means, and which go best together."""

from __future__ import annotations

import argparse

from kitctl.commands.planning import read_facts
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.edge.log_files import read_log_file
from kitctl.errors import Exit
from kitctl.host.facts import HostFacts, Topology, Unknown
from kitctl.host.read_topology import read_topology
from kitctl.kit.catalog import load_overlays
from kitctl.plan.gpu_choice import read_gpu_list
from kitctl.plan.topology_report import topology_report, unknown_report
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``topo``."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--file", metavar="TEXT", help="judge this output of 'nvidia-smi topo -m'; - is stdin"
    )
    source.add_argument("--facts", metavar="FILE", help="judge the host of this 'kitctl doctor --json' file")
    parser.add_argument("--gpus", metavar="LIST", help="judge these GPUs alone: 0-3 or 4,5")


def run(args: argparse.Namespace, context: Context) -> Result:
    """The report; exit 2 for a text whose links cannot be told, 10 for a host that does not show them."""
    if args.file is not None:
        found, failed = read_topology(read_log_file(args.file)), Exit.USAGE
        facts = HostFacts()
    else:
        facts = read_facts(args.facts, context, disks=(), trials=False)
        found = facts.topology or Unknown(reason=facts.unknown.get("topology", "the facts hold none"))
        failed = Exit.USAGE if args.facts else Exit.UNREACHABLE
    if isinstance(found, Unknown):
        data, lines = unknown_report(found.reason)
        return Result(data=data, lines=tuple(lines), exit=failed)
    overlays = load_overlays(load_kit_texts(find_kit(context.kit_dir)))
    gpus = chosen_indices(args.gpus, found, facts)
    data, lines = topology_report(found, gpus, tuple(overlays.values()))
    return Result(data=data, lines=tuple(lines), exit=Exit.OK if data["links"] else failed)


def chosen_indices(words: str | None, topology: Topology, facts: HostFacts) -> tuple[int, ...]:
    """The GPUs named by ``--gpus``, by index or UUID; all without it. Raises KitError ``bad-gpus`` (exit 2)."""
    if words is None or words == "all":
        return topology.gpu_indices
    by_uuid = {gpu.uuid: gpu.index for gpu in facts.gpus or ()}
    return tuple(int(name) if name.isdigit() else by_uuid.get(name, -1) for name in read_gpu_list(words))
