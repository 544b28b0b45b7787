"""A Kubernetes API server of a few kinds over loopback: what kubectl asks of one to apply a folder.

It answers discovery, the OpenAPI index, reads, creates and patches, and keeps every object that was sent. Which groups
it knows is a switch, so that a cluster without LeaderWorkerSet can be had.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
KINDS = {
    "v1": {
        "Service": "services",
        "PersistentVolumeClaim": "persistentvolumeclaims",
        "ConfigMap": "configmaps",
    },
    "apps/v1": {"Deployment": "deployments"},
    "batch/v1": {"Job": "jobs"},
    "leaderworkerset.x-k8s.io/v1": {"LeaderWorkerSet": "leaderworkersets"},
    "monitoring.coreos.com/v1": {"ServiceMonitor": "servicemonitors"},
}


@dataclass
class Cluster:
    """The server. ``without``: groups that it does not know; ``refuse``: the kind that it will not take."""

    without: tuple[str, ...] = ()
    refuse: str | None = None
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __enter__(self) -> Cluster:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self, path: Path, *, name: str = "the-cluster") -> Path:
        """A kubeconfig whose current context is this cluster."""
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": "u", "namespace": "serving"}}],
            "users": [{"name": "u", "user": {"token": "x"}}],
            "current-context": name,
        }
        path.write_text(json.dumps(body))
        return path

    def groups(self) -> list[str]:
        return [group for group in KINDS if group not in self.without]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and object for a request."""
        parts = path.partition("?")[0].strip("/").split("/")
        if parts == ["version"]:
            return 200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
        if parts == ["api"]:
            return 200, {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": self._group_list()}
        if parts == ["openapi", "v2"]:
            return 200, b""
        if parts[:2] == ["openapi", "v3"]:
            return 200, self._openapi(parts[2:])
        version = "/".join(parts[1:3]) if parts[0] == "apis" else parts[1] if parts[0] == "api" else ""
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        if version not in self.groups():
            return 404, status(404, "NotFound", f"no {path}")
        return (
            self._resource(method, version, rest, body, is_trial="dryRun=All" in path)
            if rest
            else (200, self._resources(version))
        )

    def _group_list(self) -> list[dict[str, Any]]:
        names = [group for group in self.groups() if "/" in group]
        rows = [(name.partition("/")[0], {"groupVersion": name, "version": "v1"}) for name in names]
        return [{"name": group, "versions": [row], "preferredVersion": row} for group, row in rows]

    def _resources(self, version: str) -> dict[str, Any]:
        rows = [
            {
                "name": plural,
                "singularName": kind.lower(),
                "namespaced": True,
                "kind": kind,
                "verbs": ["create", "get", "patch"],
            }
            for kind, plural in KINDS[version].items()
        ]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": rows}

    def _openapi(self, rest: list[str]) -> dict[str, Any]:
        prefix = {group: f"apis/{group}" if "/" in group else f"api/{group}" for group in self.groups()}
        if not rest:
            return {
                "paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in prefix.values()}
            }
        group = next(name for name, place in prefix.items() if place == "/".join(rest))
        parameters = [{"name": "dryRun", "in": "query"}, {"name": "fieldValidation", "in": "query"}]
        name, _, version = group.rpartition("/")
        paths = {}
        for kind, plural in KINDS[group].items():
            mark = {"group": name, "version": version, "kind": kind}
            call = {"parameters": parameters, "x-kubernetes-group-version-kind": mark}
            paths[f"/{prefix[group]}/namespaces/{{namespace}}/{plural}/{{name}}"] = {"patch": call}
        return {"openapi": "3.0.0", "info": {"title": "k", "version": "1"}, "paths": paths}

    def _resource(
        self, method: str, version: str, rest: list[str], body: Any, *, is_trial: bool
    ) -> tuple[int, Any]:
        """A namespaced object: GET, POST, PATCH."""
        if method == "POST":
            if body["kind"] == self.refuse:
                return 403, status(403, "Forbidden", f"{rest[-1]} is forbidden: exceeded quota")
            if not is_trial:
                self.objects[f"{body['kind']}/{body['metadata']['name']}"] = body
            return 201, body
        plural, name = rest[-2], rest[-1]
        if plural == "namespaces":
            return 200, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
        kind = next((kind for kind, known in KINDS[version].items() if known == plural), "")
        found = self.objects.get(f"{kind}/{name}")
        return (
            (200, found)
            if found is not None
            else (404, status(404, "NotFound", f"{plural} {name} not found"))
        )


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def handler_of(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: Any) -> None:
            pass

        def reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            code, found = cluster.answer(self.command, self.path, body)
            raw = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", PROTOBUF if isinstance(found, bytes) else "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = reply  # noqa: N815  # as http.server names them
        do_POST = reply  # noqa: N815
        do_PATCH = reply  # noqa: N815

    return Handler
