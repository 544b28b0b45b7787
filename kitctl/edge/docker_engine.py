"""The engine's API, through the docker SDK: which containers run, how they fare, what they say."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kitctl.edge.docker_client import engine_calls
from kitctl.errors import Exit, KitError

PROJECT_LABEL = "com.docker.compose.project"
_DEFAULT_GRACE_S = 10


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
    stop_grace_s: int

    @property
    def is_running(self) -> bool:
        """Whether its main process lives (a restarting container does not)."""
        return self.status in ("running", "paused")


def engine_info() -> dict[str, Any]:
    """``docker info`` as the API gives it. Raises KitError ``engine-unreachable`` (exit 10)."""
    with engine_calls() as client:
        return dict(client.info())


def engine_clock_s() -> float:
    """The engine's clock now, in seconds since the epoch; this machine's where it does not tell its own.

    Raises KitError ``engine-unreachable`` (exit 10).
    """
    return epoch_s(engine_info().get("SystemTime")) or time.time()


def image_id(reference: str) -> str | None:
    """The image's id on this engine, or ``None`` when it is not there."""
    found = image_labels(reference)
    return found[0] if found else None


def find_image(reference: str) -> Any | None:
    """The SDK's image, or ``None`` when it is not on this engine. Raises KitError ``engine-unreachable`` (exit 10)."""
    import docker.errors

    try:
        with engine_calls() as client:
            return client.images.get(reference)
    except docker.errors.NotFound:
        return None


def image_labels(reference: str) -> tuple[str, dict[str, str]] | None:
    """Id and OCI labels of an image, or ``None`` when it is not on this engine."""
    image = find_image(reference)
    return None if image is None else (str(image.id), dict(image.labels or {}))


def image_user(reference: str) -> str | None:
    """The user that an image's containers run as (``""`` is root), or ``None`` when it is not on this engine."""
    image = find_image(reference)
    return None if image is None else str((image.attrs.get("Config") or {}).get("User") or "")


def registry_digest(reference: str) -> str:
    """The digest that the registry names for ``reference``, asked through the engine (its mirrors and logins count).

    Raises KitError ``registry-refused`` (exit 5), ``engine-unreachable`` (exit 10).
    """
    import docker.errors

    try:
        with engine_calls() as client:
            return str(client.images.get_registry_data(reference).attrs["Descriptor"]["digest"])
    except (docker.errors.NotFound, KitError) as refused:
        if isinstance(refused, KitError) and refused.code != "engine-refused":
            raise
        said = refused.evidence if isinstance(refused, KitError) else (str(refused.explanation or refused),)
        raise KitError(
            "registry-refused",
            f"the registry of {reference} gives no digest",
            evidence=tuple(said),
            remedy="see that the engine reaches the registry (docker pull), or name a mirror in addon-images.yaml",
            exit_code=Exit.FETCH,
        ) from refused


def remove_volumes(prefix: str) -> tuple[str, ...]:
    """Remove the volumes whose names begin with ``prefix`` and that no container has; the names of those removed."""
    import docker.errors

    removed = []
    with engine_calls() as client:
        for volume in client.volumes.list(filters={"name": prefix}):
            if volume.name.startswith(prefix):
                try:
                    volume.remove()
                except docker.errors.APIError:
                    continue
                removed.append(str(volume.name))
    return tuple(removed)


def containers_of(label: str, value: str | None = None) -> tuple[ContainerState, ...]:
    """Containers that carry ``label`` (with ``value``), running or not, oldest first."""
    wanted = label if value is None else f"{label}={value}"
    with engine_calls() as client:
        found = client.containers.list(all=True, filters={"label": wanted}, ignore_removed=True)
    return tuple(sorted((_state(c) for c in found), key=lambda state: state.started_at or ""))


def running_mounts() -> tuple[tuple[str, str], ...]:
    """Container name and host folder of every bind mount of a running container.

    Raises KitError ``engine-unreachable`` (exit 10).
    """
    with engine_calls() as client:
        found = client.containers.list(ignore_removed=True)
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
        with engine_calls() as client:
            return _state(client.containers.get(container_id))
    except docker.errors.NotFound:
        return None


def wait_for_exit(container_id: str) -> int | None:
    """Block until the container's main process ends; its exit code, or ``None`` when the container is gone."""
    import docker.errors

    try:
        with engine_calls() as client:
            body = client.api.wait(container_id, timeout=None)
    except docker.errors.NotFound:
        return None
    return int(body["StatusCode"])


def epoch_s(stamp: str | None) -> float | None:
    """The engine's time stamp (``started_at``) in seconds since the epoch; ``None`` for none and for never."""
    if not stamp or stamp.startswith("0001-"):
        return None
    return datetime.fromisoformat(stamp).timestamp()


def set_restart_policy(container_id: str, policy: str) -> None:
    """Change a live container's restart policy (``no``, ``always``)."""
    with engine_calls() as client:
        client.containers.get(container_id).update(restart_policy={"Name": policy})


def restart_container(container_id: str, *, grace_s: int) -> None:
    """Stop (with ``grace_s`` seconds for running requests) and start again."""
    with engine_calls() as client:
        client.api.restart(container_id, timeout=grace_s)


def stop_project(project: str, *, grace_s: int | None = None) -> None:
    """Stop a compose project's containers; ``grace_s`` replaces each container's own time to stop if shorter."""
    import docker.errors

    with engine_calls() as client:
        for container in _project_containers(client, project):
            own_s = container.attrs["Config"].get("StopTimeout") or _DEFAULT_GRACE_S
            if container.status in ("running", "paused", "restarting"):
                with suppress(docker.errors.NotFound):
                    container.stop(timeout=own_s if grace_s is None else min(grace_s, own_s))


def remove_project(project: str) -> bool:
    """Remove a compose project's containers and networks without its files; whether there were any.

    Volumes (caches) stay.
    """
    import docker.errors

    with engine_calls() as client:
        containers = _project_containers(client, project)
        for container in containers:
            with suppress(docker.errors.NotFound):
                container.remove(force=True)
        networks = client.networks.list(filters={"label": f"{PROJECT_LABEL}={project}"})
        for network in networks:
            with suppress(docker.errors.NotFound):
                network.remove()
    return bool(containers or networks)


def _project_containers(client: Any, project: str) -> list[Any]:
    filters = {"label": f"{PROJECT_LABEL}={project}"}
    return list(client.containers.list(all=True, filters=filters, ignore_removed=True))


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
        stop_grace_s=int(config.get("StopTimeout") or _DEFAULT_GRACE_S),
    )
