"""Run a load with client processes beside this one, and bring their raw event logs back."""

from __future__ import annotations

import json
import re
import selectors
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kitctl.bench.load import ClientHealth, Load, LoadRun, Share, Target, split_load
from kitctl.errors import Exit, KitError

LEAD_NS = 50_000_000
READY_TIMEOUT_S = 120.0
TLS_MARKS = ("[SSL", "SSLError", "SSLEOFError", "CERTIFICATE_VERIFY", "_ssl.c", "handshake")
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/generate", "/v1")

Progress = Callable[[int, int], None]


def target_of(
    url: str, *, api_key: str | None = None, ca_file: str | None = None, insecure: bool = False
) -> Target:
    """The address in ``url`` (``http://host:port[/prefix]``, also with ``/v1`` or an endpoint's path behind it).

    Raises KitError ``bad-url`` or, for a URL that holds a password, ``url-credentials`` (exit 2); neither tells it.
    ``bad-ca-file`` (exit 2) for one without certificates.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise _bad_url(url) from None
    if "@" in parts.netloc:
        raise KitError(
            "url-credentials",
            f"{_masked(url)} holds a user name or a password, which results would tell",
            remedy="give the address alone, and a key with --api-key-file FILE or KITCTL_API_KEY",
            exit_code=Exit.USAGE,
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or "?" in url or "#" in url:
        raise _bad_url(url)
    tls = parts.scheme == "https"
    if tls and ca_file is not None:
        _require_authorities(ca_file)
    path = parts.path.rstrip("/")
    path = path.removesuffix(next((end for end in ENDPOINTS if path.endswith(end)), "")).rstrip("/")
    return Target(
        host=parts.hostname,
        port=port or (443 if tls else 80),
        tls=tls,
        path=path,
        api_key=api_key,
        ca_file=ca_file,
        insecure=insecure,
    )


def _masked(url: str) -> str:
    """``url`` without what stands before its last ``@`` or behind a ``?`` or ``#``, where keys may be."""
    before, at, rest = url.rpartition("@")
    scheme, mark, _ = before.partition("://")
    shown = re.sub(r"([?#]).+", r"\1***", rest, flags=re.DOTALL)
    if not at:
        return shown
    return f"{scheme}{mark}***@{shown}" if mark and scheme.isalpha() else f"***@{shown}"


def _bad_url(url: str) -> KitError:
    return KitError(
        "bad-url",
        f"{_masked(url)!r} is not the address of a server",
        remedy="give --url http://HOST:PORT, without ? or #",
        exit_code=Exit.USAGE,
    )


def run_load(target: Target, load: Load, *, timeout_s: float, progress: Progress | None = None) -> LoadRun:
    """Send ``load`` to ``target`` and wait for its end. ``timeout_s``: silence after which a request is given up.

    Raises KitError ``server-unreachable`` (exit 10) when no connection stands, ``tls-failed`` (exit 10) when none
    with TLS does, ``too-few-files`` (exit 3), ``load-client-died`` (exit 70).
    """
    address = _resolve(target)
    with tempfile.TemporaryDirectory(prefix="kitctl-load-") as folder:
        workers = [
            _spawn(
                Path(folder), number, share, load=load, target=target, address=address, timeout_s=timeout_s
            )
            for number, share in enumerate(split_load(load))
        ]
        try:
            go_ns, summaries = _drive(workers, target, progress)
            logs = tuple((Path(folder) / f"{number}.log").read_bytes() for number in range(len(workers)))
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
                for pipe in (worker.stdin, worker.stdout):
                    if pipe is not None:
                        pipe.close()
    return LoadRun(logs=logs, go_ns=go_ns, health=_health(summaries))


def _resolve(target: Target) -> tuple[str, int]:
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        raise unreachable(target, str(unknown)) from unknown
    for *_, address in found:
        try:
            with socket.create_connection((str(address[0]), target.port), timeout=10):
                return str(address[0]), target.port
        except OSError as refused:
            reason = str(refused)
    raise unreachable(target, reason)


def unreachable(target: Target, why: str) -> KitError:
    """The error of a server that takes no connection, for the reason ``why``: ``server-unreachable`` (exit 10).

    ``tls-failed`` (exit 10) when the reason speaks of TLS: the server is there, and takes no such connection.
    """
    if target.tls and any(mark in why for mark in TLS_MARKS):
        return _untrusted(target, why) if "CERTIFICATE_VERIFY_FAILED" in why else _no_tls(target, why)
    return KitError(
        "server-unreachable",
        f"nothing answers at {target.address}",
        evidence=(why,),
        remedy="start the server, or give its address with --url http://HOST:PORT",
        exit_code=Exit.UNREACHABLE,
    )


def _no_tls(target: Target, why: str) -> KitError:
    return KitError(
        "tls-failed",
        f"{target.address} answers, but not with TLS",
        evidence=(why,),
        remedy="give its address with --url http://HOST:PORT",
        exit_code=Exit.UNREACHABLE,
    )


def _untrusted(target: Target, why: str) -> KitError:
    return KitError(
        "tls-failed",
        f"the certificate of {target.address} is not trusted",
        evidence=(why,),
        remedy="name the authority that signed it with --ca-file FILE, or take any certificate with --insecure",
        exit_code=Exit.UNREACHABLE,
    )


def _require_authorities(path: str) -> None:
    """Raise KitError ``bad-ca-file`` (exit 2) where the file holds no certificate that may be read."""
    try:
        ssl.create_default_context(cafile=path)
    except OSError as broken:
        raise KitError(
            "bad-ca-file",
            f"{path} holds no certificates to trust",
            evidence=(str(broken),),
            remedy="give --ca-file a PEM file with the certificate of the authority",
            exit_code=Exit.USAGE,
        ) from broken


def _too_few_files(why: str) -> KitError:
    return KitError(
        "too-few-files",
        "this host allows a process fewer open files than there are streams",
        evidence=(why,),
        remedy="raise the hard limit (ulimit -Hn, LimitNOFILE), or ask for fewer streams",
        exit_code=Exit.REFUSED,
    )


def _spawn(
    folder: Path,
    number: int,
    share: Share,
    *,
    load: Load,
    target: Target,
    address: tuple[str, int],
    timeout_s: float,
) -> subprocess.Popen[str]:
    blob = bytearray()
    places = []
    for request in (load.requests[at] for at in share.numbers):
        places.append((len(blob), len(request)))
        blob += request
    (folder / f"{number}.blob").write_bytes(blob)
    job = {
        "requests": places,
        "numbers": share.numbers,
        "streams": share.streams,
        "first_stream": share.first_stream,
        "starts_s": share.starts_s,
        "open_loop": load.open_loop,
        "most_streams": load.most_streams,
        "address": address,
        "tls": target.tls,
        "server_name": target.host,
        "ca_file": target.ca_file,
        "insecure": target.insecure,
        "timeout_s": timeout_s,
        "blob": str(folder / f"{number}.blob"),
        "log": str(folder / f"{number}.log"),
    }
    path = folder / f"{number}.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "kitctl.edge.load_worker", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _drive(
    workers: list[subprocess.Popen[str]], target: Target, progress: Progress | None
) -> tuple[int, list[dict[str, Any]]]:
    """Wait until all are connected, start them at one moment, follow them to the end."""
    waits = selectors.DefaultSelector()
    for number, worker in enumerate(workers):
        assert worker.stdout is not None
        waits.register(worker.stdout, selectors.EVENT_READ, number)
    with waits:
        for number in range(len(workers)):
            news = _hear(workers[number])
            if "unreachable" in news:
                raise unreachable(target, news["unreachable"])
            if "no-more-files" in news:
                raise _too_few_files(news["no-more-files"])
        go_ns = time.monotonic_ns() + LEAD_NS
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{go_ns}\n")
            worker.stdin.flush()
        return go_ns, _follow(workers, waits, progress)


def _follow(
    workers: list[subprocess.Popen[str]], waits: selectors.BaseSelector, progress: Progress | None
) -> list[dict[str, Any]]:
    summaries: dict[int, dict[str, Any]] = {}
    done: dict[int, tuple[int, int]] = {}
    while len(summaries) < len(workers):
        for key, _ in waits.select():
            news = _hear(workers[key.data])
            if "summary" in news:
                summaries[key.data] = news["summary"]
                waits.unregister(key.fileobj)
            else:
                done[key.data] = (news["done"], news["of"])
        if progress is not None and done:
            progress(sum(d for d, _ in done.values()), sum(o for _, o in done.values()))
    return [summaries[number] for number in range(len(workers))]


def _hear(worker: subprocess.Popen[str]) -> dict[str, Any]:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise KitError(
            "load-client-died",
            f"a load client process ended with exit code {worker.wait()}",
            evidence=("its own message stands above",),
            remedy="see that memory and open files suffice (ulimit -n), then run the command again",
            exit_code=Exit.BUG,
        )
    news: dict[str, Any] = json.loads(line)
    return news


def _health(summaries: list[dict[str, Any]]) -> ClientHealth:
    return ClientHealth(
        processes=len(summaries),
        cpu_share=max(s["cpu_s"] / max(s["wall_s"], 1e-9) for s in summaries),
        cpu_s=sum(s["cpu_s"] for s in summaries),
        lag_mean_ms=max(s["lag_mean_ms"] for s in summaries),
        lag_p99_ms=max(s["lag_p99_ms"] for s in summaries),
        lag_max_ms=max(s["lag_max_ms"] for s in summaries),
        reconnects=sum(s["reconnects"] for s in summaries),
    )
