"""The connection to the container engine, and its failures in kitctl's words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from kitctl.edge.process import run_process
from kitctl.errors import Exit, KitError

_TIMEOUT_S = 60


@cache
def engine_address() -> str:
    """The address of the engine in use: DOCKER_HOST, else the current context's endpoint."""
    if os.environ.get("DOCKER_HOST"):
        return os.environ["DOCKER_HOST"]
    if not os.environ.get("DOCKER_CONTEXT") and not _has_docker_config():
        return "unix:///var/run/docker.sock"
    argv = ("docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    named = run_process(argv, timeout_s=_TIMEOUT_S)
    if not named.ok:
        raise unreachable(named.stderr.strip() or str(named.failure))
    return named.stdout.strip()


def _has_docker_config() -> bool:
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")  # noqa: PTH111  # as docker does
    return os.path.isfile(os.path.join(folder, "config.json"))  # noqa: PTH113,PTH118  # as docker does


@cache
def engine_client() -> Any:
    """The SDK's client, connected. Raises KitError ``engine-unreachable`` (exit 10)."""
    import docker
    import docker.errors
    from docker.utils import kwargs_from_env

    address = engine_address()
    try:
        client = docker.DockerClient(
            base_url=address,
            tls=kwargs_from_env().get("tls") or False,
            timeout=_TIMEOUT_S,
        )
        client.ping()
    except (docker.errors.DockerException, OSError, ValueError) as gone:
        raise unreachable(str(gone)) from gone
    return client


@contextmanager
def engine_calls() -> Iterator[Any]:
    """The client, with what goes wrong in the block told as KitError.

    Raises ``engine-unreachable`` (exit 10) when the engine goes away and ``engine-refused`` (exit 6) when it answers
    no; that something is not there is left to the caller.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    client = engine_client()
    try:
        yield client
    except docker.errors.NotFound:
        raise
    except docker.errors.APIError as refused:
        raise KitError(
            "engine-refused",
            "the container engine refused",
            evidence=(str(refused.explanation or refused),),
            remedy="kitctl doctor",
            exit_code=Exit.START,
        ) from refused
    except (
        docker.errors.DockerException,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as gone:
        raise unreachable(str(gone)) from gone


def require_engine() -> None:
    """Return when the engine answers. Raises KitError ``engine-unreachable`` (exit 10)."""
    engine_client()


def unreachable(said: str) -> KitError:
    """The error for an engine that does not answer."""
    return KitError(
        "engine-unreachable",
        "no container engine answers",
        evidence=(said,),
        remedy="kitctl setup brings a bare host to a working engine; --host or DOCKER_HOST names another",
        exit_code=Exit.UNREACHABLE,
    )
