"""A hub that speaks the Hugging Face protocol over loopback, with switches for all that can go wrong.

It answers what huggingface_hub 2.4 and kitctl ask: revision, tree, resolve (HEAD and GET with ranges, large files
by a redirect to a storage path), the Xet read token. ``Switches`` are read at each request, so a test may change
them while a pull runs; ``log`` keeps every request.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

LARGE_BYTES = 100_000
"""Files from this size on are LFS files: sha256, and bytes from the storage path."""


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256_if_large(data: bytes) -> str | None:
    return hashlib.sha256(data).hexdigest() if len(data) >= LARGE_BYTES else None


@dataclass
class Repo:
    """One repository at one commit. ``sent``: paths whose bytes on the wire are other ones."""

    files: dict[str, bytes]
    commit: str = "a" * 40
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool | str = False
    licence: str | None = "mit"
    sent: dict[str, bytes] = field(default_factory=dict)
    xet_hashes: dict[str, str] = field(default_factory=dict)

    def commit_of(self, revision: str) -> str | None:
        names = {"main": self.commit, **self.refs}
        return revision if revision in names.values() else names.get(revision)


@dataclass
class Switches:
    """What goes wrong. ``cut_every`` bytes the connection ends; ``status_once`` answers come before the good one."""

    cut_every: int | None = None
    stall_after: int | None = None
    rate_bytes_per_s: float | None = None
    piece_bytes: int = 64 * 1024
    ignore_range: bool = False
    token: str | None = None
    forbid_resolve: bool = False
    status_once: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    status_always: int | None = None
    status_storage_once: list[int] = field(default_factory=list)
    xet_endpoint: str | None = None
    linked_etag: str | None = None


class Hub:
    """The server; use as a context manager. ``bytes_sent`` counts body bytes a path."""

    def __init__(self, repos: dict[str, Repo]) -> None:
        self.repos, self.switches = repos, Switches()
        self.log: list[tuple[str, str, str | None]] = []
        self.bytes_sent: Counter[str] = Counter()
        self.released = threading.Event()
        hub = self

        class Handler(_Handler):
            server_hub = hub

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.storage_url = f"http://localhost:{self._server.server_port}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def requests_for(self, part: str) -> list[tuple[str, str, str | None]]:
        """Requests whose path holds ``part``: method, path, Range."""
        return [one for one in self.log if part in one[1]]


class _Server(ThreadingHTTPServer):
    def handle_error(self, *args: object) -> None:
        """A client that went away is no error here."""
        del args


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_hub: Hub

    def log_message(self, *args: object) -> None:
        del args

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        hub, path = self.server_hub, self.path.split("?")[0]
        hub.log.append((self.command, path, self.headers.get("Range")))
        wrong = hub.switches.status_once
        if wrong:
            status, headers = wrong.pop(0)
            return self._answer(status, b"later", headers)
        if hub.switches.status_storage_once and path.startswith("/storage/"):
            return self._answer(hub.switches.status_storage_once.pop(0), b"no", {})
        if hub.switches.status_always:
            return self._answer(hub.switches.status_always, b"no", {})
        for pattern, answer in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found:
                return answer(self, **found.groupdict())
        return self._answer(404, b"no such route", {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str, message: str) -> None:
        self._answer(status, b"{}", {"X-Error-Code": code, "X-Error-Message": message})

    def _repo(self, name: str, revision: str) -> tuple[Repo, str] | None:
        """The repository, when it is there and may be read; answers the error otherwise."""
        wanted = self.server_hub.switches.token
        repo = self.server_hub.repos.get(name)
        if repo is None:
            self._error(404, "RepoNotFound", "Repository not found")
        elif wanted and self.headers.get("Authorization") != f"Bearer {wanted}":
            self._answer(401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"})
        elif repo.commit_of(revision) is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repo, str(repo.commit_of(revision))
        return None

    def revision(self, name: str, revision: str) -> None:
        found = self._repo(name, revision)
        if found:
            repo, commit = found
            siblings = [{"rfilename": path} for path in repo.files]
            body = {
                "id": name, "sha": commit, "siblings": siblings, "gated": repo.gated, "private": False,
                "tags": [f"license:{repo.licence}"] if repo.licence else [],
            }  # fmt: skip
            self._answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def tree(self, name: str, revision: str) -> None:
        found = self._repo(name, revision)
        if found:
            rows = [self._row(found[0], path, data) for path, data in found[0].files.items()]
            self._answer(200, json.dumps(rows).encode(), {"Content-Type": "application/json"})

    def _row(self, repo: Repo, path: str, data: bytes) -> dict[str, object]:
        row: dict[str, object] = {"type": "file", "oid": git_sha1(data), "size": len(data), "path": path}
        if len(data) >= LARGE_BYTES:
            row["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
        if path in repo.xet_hashes:
            row["xetHash"] = repo.xet_hashes[path]
        return row

    def resolve(self, name: str, revision: str, path: str) -> None:
        found = self._repo(name, revision)
        if not found:
            return None
        repo, commit = found
        if self.server_hub.switches.forbid_resolve:
            return self._error(403, "GatedRepo", f"Access to model {name} is restricted")
        if path not in repo.files:
            return self._error(404, "EntryNotFound", "Entry not found")
        data = repo.files[path]
        headers = {"X-Repo-Commit": commit}
        if len(data) < LARGE_BYTES:
            return self._body(path, repo.sent.get(path, data), {**headers, "ETag": f'"{git_sha1(data)}"'})
        tag = self.server_hub.switches.linked_etag or hashlib.sha256(data).hexdigest()
        headers |= {"X-Linked-Etag": f'"{tag}"', "X-Linked-Size": str(len(data))}
        return self._answer(
            302, b"", {**headers, "Location": f"{self.server_hub.storage_url}/storage/{name}/{path}"}
        )

    def storage(self, name: str, path: str) -> None:
        repo = self.server_hub.repos[name]
        data = repo.sent.get(path, repo.files[path])
        self._body(path, data, {"ETag": f'"{hashlib.md5(data).hexdigest()}"'})

    def xet_token(self, name: str, revision: str) -> None:
        endpoint = self.server_hub.switches.xet_endpoint
        if endpoint is None or not self._repo(name, revision):
            return self._answer(404, b"", {})
        headers = {
            "X-Xet-Cas-Url": endpoint,
            "X-Xet-Access-Token": "t",
            "X-Xet-Token-Expiration": "4102444800",
        }
        body = {"casUrl": endpoint, "accessToken": "t", "exp": 4102444800}
        return self._answer(200, json.dumps(body).encode(), headers)

    def _body(self, path: str, data: bytes, headers: dict[str, str]) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(wanted[1]) if wanted and not self.server_hub.switches.ignore_range else 0
        if start and start >= len(data):
            return self._answer(416, b"", {**headers, "Content-Range": f"bytes */{len(data)}"})
        self.send_response(206 if start else 200)
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        for header, value in {**headers, "Content-Length": str(len(data) - start)}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self._send(path, data[start:])
        return None

    def _send(self, path: str, data: bytes) -> None:
        """Send the body in small pieces, as slowly and as far as the switches let it."""
        hub, sent, begun = self.server_hub, 0, time.monotonic()
        while sent < len(data):
            switches = hub.switches
            if switches.stall_after is not None and sent >= switches.stall_after:
                hub.released.wait(60)
            if switches.cut_every is not None and sent >= switches.cut_every:
                self.close_connection = True
                self.connection.close()
                return
            piece = data[sent : sent + switches.piece_bytes]
            try:
                self.wfile.write(piece)
            except OSError:
                self.close_connection = True
                return
            sent += len(piece)
            hub.bytes_sent[path] += len(piece)
            if switches.rate_bytes_per_s:
                time.sleep(max(0.0, sent / switches.rate_bytes_per_s - (time.monotonic() - begun)))


_NAME = r"(?P<name>[^/]+/[^/]+)"
_ROUTES = (
    (rf"/api/models/{_NAME}/revision/(?P<revision>[^/]+)", _Handler.revision),
    (rf"/api/models/{_NAME}/tree/(?P<revision>[^/]+)", _Handler.tree),
    (rf"/api/models/{_NAME}/xet-read-token/(?P<revision>[^/]+)", _Handler.xet_token),
    (rf"/storage/{_NAME}/(?P<path>.+)", _Handler.storage),
    (rf"/{_NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", _Handler.resolve),
)
