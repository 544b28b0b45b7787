"""``kitctl render --to kubernetes``: the plan for a cluster as a Kustomize folder, linted before it is written."""

from __future__ import annotations

import argparse
from dataclasses import replace

import msgspec

from kitctl import __version__
from kitctl.commands.argument_types import node_count
from kitctl.commands.plan_checks import read_shapes
from kitctl.commands.planning import Planned
from kitctl.edge.files import write_atomic
from kitctl.edge.host_data import load_host_tables
from kitctl.edge.kubectl import ClusterContext, apply_folder, current_context, require_kubectl
from kitctl.edge.kubernetes_data import load_kubernetes_data
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, blocking, finding_lines, without_skipped
from kitctl.plan.types import GpuDriver
from kitctl.render.kubernetes import Rendered, render_kubernetes
from kitctl.render.kubernetes_lint import lint_manifests
from kitctl.render.kubernetes_pod import Cluster
from kitctl.result import Result


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that say what the cluster is."""
    cluster = parser.add_argument_group("kubernetes")
    cluster.add_argument(
        "--nodes", type=node_count, default=1, metavar="N", help="nodes that one server spans (default: 1)"
    )
    cluster.add_argument(
        "--gpus-per-node",
        type=node_count,
        metavar="N",
        help="GPUs of each node (default: 8 on several nodes, what the stack uses on one)",
    )
    cluster.add_argument(
        "--apply",
        action="store_true",
        help="then apply the folder to the cluster of kubectl's current context",
    )
    cluster.add_argument(
        "--kitctl-image", metavar="REF", help="the image in which kitctl fills the model store"
    )


def refuse_cluster_arguments(args: argparse.Namespace) -> None:
    """Raises KitError ``option-of-kubernetes`` (exit 2) when another target is given an option of clusters."""
    if args.nodes > 1 or args.gpus_per_node or args.kitctl_image or args.apply:
        raise KitError(
            "option-of-kubernetes",
            f"--to {args.to} is for one host; --nodes, --gpus-per-node, --kitctl-image and --apply are a cluster's",
            remedy="render with --to kubernetes, or leave them out",
            exit_code=Exit.USAGE,
        )


def render_for_cluster(args: argparse.Namespace, planned: Planned, folder: str) -> Result:
    """Write the folder; a rule of the linter that blocks leaves nothing written (exit 3).

    A finding of the plan that blocks gives exit 3 too, with the files written. With ``--apply`` the folder goes to the
    cluster when nothing blocks. Raises what ``require_layout`` and, with ``--apply``, ``kubectl`` raise.
    """
    context = _context_to_apply_to(args)
    book, settings = load_kubernetes_data()
    cluster = _cluster(args, planned)
    rendered = render_kubernetes(
        planned.plan, cluster, base_environment=planned.kit.base_environment, settings=settings
    )
    linted = without_skipped(
        lint_manifests(rendered.manifests, book=book, settings=settings), frozenset(args.skip)
    )
    findings = (*_of_nodes(planned.plan.findings, has_facts=args.facts is not None), *linted)
    written = {} if blocking(linted) else rendered.files
    for name, text in written.items():
        write_atomic(f"{folder}/{name}", text)
    exit_code = Exit.REFUSED if blocking(findings) else Exit.OK
    applied = apply_folder(folder, context) if context and exit_code is Exit.OK else ()
    result = _result(rendered, tuple(sorted(written)), findings, folder=folder, exit_code=exit_code)
    return _with_applied(result, context, applied) if context else result


def _context_to_apply_to(args: argparse.Namespace) -> ClusterContext | None:
    """Asked before anything is written: a folder that cannot be applied is not half a success."""
    if not args.apply:
        return None
    require_kubectl()
    return current_context()


def _with_applied(result: Result, context: ClusterContext, applied: tuple[str, ...]) -> Result:
    """The result with the cluster and what became of each object there."""
    data = {**result.data, "context": context.name, "server": context.server, "applied": list(applied)}
    where = f"context {context.name} ({context.server})"
    told = (
        (f"applied to {where}:", *(f"  {line}" for line in applied))
        if applied
        else (f"not applied to {where}",)
    )
    return replace(result, data=data, lines=(*result.lines, *told))


def _result(
    rendered: Rendered,
    written: tuple[str, ...],
    findings: tuple[Finding, ...],
    *,
    folder: str,
    exit_code: Exit,
) -> Result:
    left_out = [f"left out over several nodes: {name}={value}" for name, value in rendered.left_out.items()]
    data = {
        "schema": "kitctl.render/1",
        "to": "kubernetes",
        "folder": folder,
        "files": list(written),
        "left_out": dict(rendered.left_out),
        "findings": [msgspec.to_builtins(finding) for finding in findings],
    }
    lines = (*finding_lines(findings), *left_out, *(f"{folder}/{name}" for name in written))
    return Result(data=data, lines=lines, exit=exit_code)


def _cluster(args: argparse.Namespace, planned: Planned) -> Cluster:
    plan, (_, settings) = planned.plan, load_kubernetes_data()
    own = 0 if plan.gpus.driver is GpuDriver.NONE else plan.stack.gpu_count
    default = settings.gpus_per_node if args.nodes > 1 else own
    return Cluster(
        nodes=args.nodes,
        gpus_per_node=args.gpus_per_node or default,
        entries=planned.entries,
        ram_bytes=int((plan.load or {}).get("ram_bytes", 0)),
        kitctl_image=args.kitctl_image or settings.kitctl_image.format(version=__version__),
        launcher=package_text("serve_with_key.py"),
        experts=_experts(planned),
    )


def _experts(planned: Planned) -> int | None:
    """Routed experts of the model, ``None`` for one without."""
    experts = read_shapes(planned.entries).target.experts
    return experts.count if experts else None


def _of_nodes(findings: tuple[Finding, ...], *, has_facts: bool) -> tuple[Finding, ...]:
    """The plan's findings without those on this machine: all of the host's, unless ``--facts`` describe a node."""
    _, settings = load_kubernetes_data()
    dropped = set(settings.findings.of_one_machine)
    if not has_facts:
        dropped |= load_host_tables().book.records.keys()
    return tuple(finding for finding in findings if finding.code not in dropped)
