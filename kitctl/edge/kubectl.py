"""Hand a Kustomize folder to the cluster of the user's own kubectl context."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from kitctl.edge.process import Finished, run_process
from kitctl.errors import Exit, KitError

_LOOK_S = 30.0
_APPLY_S = 300.0
_UNREACHABLE = ("connection refused", "was refused", "no such host", "i/o timeout")
_UNKNOWN_KINDS = {
    "LeaderWorkerSet": (
        "lws-missing",
        "does not know LeaderWorkerSet, which spreads one server over nodes",
        "install kubernetes-sigs/lws there (its README names the manifests), then kubectl apply -k {folder}",
    ),
    "ServiceMonitor": (
        "servicemonitor-missing",
        "has no Prometheus operator, and the folder holds a ServiceMonitor for it",
        "install it, or take servicemonitor.yaml out of {folder}/kustomization.yaml; then kubectl apply -k {folder}",
    ),
}


@dataclass(frozen=True, kw_only=True)
class ClusterContext:
    """The context that kubectl uses now, and the address of its API server."""

    name: str
    server: str


def require_kubectl() -> None:
    """Raises KitError ``kubectl-missing`` (exit 10) when kubectl is not on the PATH."""
    if shutil.which("kubectl") is None:
        raise KitError(
            "kubectl-missing",
            "--apply hands the manifests to kubectl, which is not on this machine",
            remedy="install kubectl, or leave --apply out and run kubectl apply -k DIR where it is",
            exit_code=Exit.UNREACHABLE,
        )


def current_context() -> ClusterContext:
    """Which cluster ``apply_folder`` would reach. Raises KitError ``no-cluster-context`` (exit 10)."""
    named = run_process(("kubectl", "config", "current-context"), timeout_s=_LOOK_S)
    if not named.ok or not named.stdout.strip():
        raise KitError(
            "no-cluster-context",
            "kubectl has no current context, so there is no cluster to apply to",
            evidence=_last_lines(named),
            remedy="kubectl config use-context NAME; kubectl config get-contexts lists them",
            exit_code=Exit.UNREACHABLE,
        )
    template = "jsonpath={.clusters[0].cluster.server}"
    seen = run_process(("kubectl", "config", "view", "--minify", "--output", template), timeout_s=_LOOK_S)
    return ClusterContext(name=named.stdout.strip(), server=seen.stdout.strip() or "an unknown server")


def apply_folder(folder: str, context: ClusterContext) -> tuple[str, ...]:
    """Render ``folder`` with kubectl's Kustomize and apply it to ``context``; what became of each object.

    The context is named in the call, so that a switch meanwhile sends nothing elsewhere; the server is asked first
    whether it would take every object, so that it is not left with half of them. Raises KitError
    ``kustomize-failed`` (exit 2), ``cluster-unreachable`` (exit 10), ``lws-missing`` and ``servicemonitor-missing``
    (exit 3), ``apply-failed`` (exit 6).
    """
    built = run_process(("kubectl", "kustomize", folder), timeout_s=_LOOK_S)
    if not built.ok:
        raise KitError(
            "kustomize-failed",
            f"kubectl cannot render {folder}",
            evidence=_last_lines(built),
            remedy=f"render it anew; a kubectl of 1.21 or later reads it: kubectl kustomize {folder}",
            exit_code=Exit.USAGE,
        )
    argv = ("kubectl", "--context", context.name, "apply", "--filename", "-")
    for trial in (("--dry-run=server",), ()):
        done = run_process((*argv, *trial), timeout_s=_APPLY_S, stdin=built.stdout)
        if not done.ok:
            raise _refused(done, context, folder)
    return tuple(line for line in done.stdout.splitlines() if line.strip())


def _refused(done: Finished, context: ClusterContext, folder: str) -> KitError:
    """What the cluster's refusal means to the user."""
    evidence = (*done.stdout.splitlines()[-6:], *_last_lines(done))
    if any(sign in done.stderr for sign in _UNREACHABLE):
        return KitError(
            "cluster-unreachable",
            f"the cluster of context {context.name} does not answer at {context.server}",
            evidence=evidence,
            remedy="kubectl cluster-info",
            exit_code=Exit.UNREACHABLE,
        )
    for kind, (code, cause, remedy) in _UNKNOWN_KINDS.items():
        if f'no matches for kind "{kind}"' in done.stderr:
            return KitError(
                code,
                f"the cluster of context {context.name} {cause}",
                evidence=evidence,
                remedy=remedy.format(folder=folder),
                exit_code=Exit.REFUSED,
            )
    return KitError(
        "apply-failed",
        f"the cluster of context {context.name} refused",
        evidence=evidence,
        remedy=f"mend what it says, then kubectl apply -k {folder}; kubectl delete -k {folder} takes back what it took",
        exit_code=Exit.START,
    )


def _last_lines(done: Finished) -> tuple[str, ...]:
    return tuple((done.stderr.strip() or str(done.failure or "")).splitlines()[-4:])
