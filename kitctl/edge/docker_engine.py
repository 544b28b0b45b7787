"""The engine's API, through the docker SDK: which containers run, how they fare, what they say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from kitctl.edge.process import run_process
from kitctl.errors import Exit, KitError

_TIMEOUT_S = 20


@dataclass(frozen=True, kw_only=True)
class ContainerState:
    """One container as the engine sees it now. ``exit_code`` means something only when it is not running."""

    id: str
    name: str
    image_id: str
    labels: dict[str, str]
    status: str
    exit_code: int | None
    oom_killed: bool
    restart_count: int
    health: str | None
    started_at: str | None
    finished_at: str | None
    argv: tuple[str, ...]
    environment: dict[str, str]
    error: str

    @property
    def is_running(self) -> bool:
        """Whether its main process lives (a restarting container does not)."""
        return self.status in ("running", "paused")


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
        raise _unreachable(named.stderr.strip() or str(named.failure))
    return named.stdout.strip()


def _has_docker_config() -> bool:
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")  # noqa: PTH111  # as docker does
    return os.path.isfile(os.path.join(folder, "config.json"))  # noqa: PTH113,PTH118  # as docker does


@cache
def _client() -> Any:
    import docker
    import docker.errors

    address = engine_address()
    try:
        client = docker.DockerClient(
            base_url=address, timeout=_TIMEOUT_S, use_ssh_client=address.startswith("ssh://")
        )
        client.ping()
    except (docker.errors.DockerException, OSError) as gone:
        raise _unreachable(str(gone)) from gone
    return client


def require_engine() -> None:
    """Return when the engine answers. Raises KitError ``engine-unreachable`` (exit 10)."""
    _client()


def engine_info() -> dict[str, Any]:
    """``docker info`` as the API gives it. Raises KitError ``engine-unreachable`` (exit 10)."""
    return dict(_client().info())


def image_id(reference: str) -> str | None:
    """The image's id on this engine, or ``None`` when it is not there."""
    found = image_labels(reference)
    return found[0] if found else None


def image_labels(reference: str) -> tuple[str, dict[str, str]] | None:
    """Id and OCI labels of an image, or ``None`` when it is not on this engine."""
    import docker.errors

    try:
        image = _client().images.get(reference)
    except docker.errors.ImageNotFound:
        return None
    return str(image.id), dict(image.labels or {})


def containers_of(label: str, value: str | None = None) -> tuple[ContainerState, ...]:
    """Containers that carry ``label`` (with ``value``), running or not, oldest first."""
    wanted = label if value is None else f"{label}={value}"
    found = _client().containers.list(all=True, filters={"label": wanted}, ignore_removed=True)
    return tuple(sorted((_state(c) for c in found), key=lambda state: state.started_at or ""))


def running_mounts() -> tuple[tuple[str, str], ...]:
    """Container name and host folder of every bind mount of a running container.

    Raises KitError ``engine-unreachable`` (exit 10).
    """
    found = _client().containers.list(ignore_removed=True)
    return tuple(
        (str(container.name), str(mount["Source"]))
        for container in found
        for mount in container.attrs.get("Mounts") or ()
        if mount.get("Type") == "bind"
    )


def container_state(container_id: str) -> ContainerState | None:
    """The container's state now, or ``None`` when it is gone."""
    import docker.errors

    try:
        return _state(_client().containers.get(container_id))
    except docker.errors.NotFound:
        return None


def wait_for_exit(container_id: str) -> int | None:
    """Block until the container's main process ends; its exit code, or ``None`` when the container is gone."""
    import docker.errors

    api = _client().api
    try:
        body = api.wait(container_id, timeout=None)
    except docker.errors.NotFound:
        return None
    return int(body["StatusCode"])


def log_lines(container_id: str, *, follow: bool, tail: int | None = None) -> Iterator[str]:
    """The container's output line by line (stdout and stderr as written); ends when it does.

    A progress bar's carriage returns stay inside their line.
    """
    import docker.errors

    tail_arg: int | str = "all" if tail is None else tail
    try:
        chunks = _client().api.logs(container_id, stream=True, follow=follow, tail=tail_arg)
        rest = b""
        for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)
        if rest:
            yield rest.decode("utf-8", "replace")
    except docker.errors.NotFound:
        return


def set_restart_policy(container_id: str, policy: str) -> None:
    """Change a live container's restart policy (``no``, ``unless-stopped``)."""
    _client().containers.get(container_id).update(restart_policy={"Name": policy})


def restart_container(container_id: str, *, grace_s: int) -> None:
    """Stop (with ``grace_s`` seconds for running requests) and start again."""
    api = _client().api
    api.restart(container_id, timeout=grace_s)


def _state(container: Any) -> ContainerState:
    attributes = container.attrs
    state, config = attributes["State"], attributes["Config"]
    return ContainerState(
        id=container.id,
        name=container.name,
        image_id=attributes["Image"],
        labels=dict(config.get("Labels") or {}),
        status=state["Status"],
        exit_code=state.get("ExitCode"),
        oom_killed=bool(state.get("OOMKilled")),
        restart_count=int(attributes.get("RestartCount", 0)),
        health=(state.get("Health") or {}).get("Status"),
        started_at=state.get("StartedAt"),
        finished_at=state.get("FinishedAt"),
        argv=tuple(config.get("Cmd") or ()),
        environment=dict(pair.split("=", 1) for pair in config.get("Env") or () if "=" in pair),
        error=state.get("Error") or "",
    )


def _unreachable(said: str) -> KitError:
    return KitError(
        "engine-unreachable",
        "no container engine answers",
        evidence=(said,),
        remedy="kitctl setup brings a bare host to a working engine; --host or DOCKER_HOST names another",
        exit_code=Exit.UNREACHABLE,
    )
