"""What does the docker command line say of the engine, its containers and images?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.host.facts import Container, ContainerEngine, Unknown

_LABEL_PROJECT = "com.docker.compose.project"
_LABEL_STACK = "io.kitctl.stack"
_PUBLISHED = re.compile(r":(\d+)(?:-(\d+))?->")
_SIZE = re.compile(r"([\d.]+)([kMGT]?B)")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_NO_DRIVER = ("could not select device driver", "unknown or invalid runtime name", "failed to discover GPU")


@dataclass(frozen=True, kw_only=True)
class LocalImage:
    """An image that the engine holds."""

    reference: str
    size_bytes: int


def read_docker_info(text: str, *, exit_code: int | None, stderr: str) -> ContainerEngine | Unknown:
    """The engine behind ``docker info``. With the daemon down it prints whole JSON and an empty version."""
    info = _json(text)
    if not info or exit_code != 0 or not info.get("ServerVersion"):
        errors = info.get("ServerErrors") or [] if info else []
        said = errors[0] if errors else stderr.strip().splitlines()[0:1] or [""]
        reason = said if isinstance(said, str) else said[0]
        return Unknown(reason=reason or "docker info names no server version")
    security = [str(option) for option in info.get("SecurityOptions") or ()]
    return ContainerEngine(
        version=str(info["ServerVersion"]),
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        default_runtime=info.get("DefaultRuntime"),
        cdi_devices=cdi_devices(info),
        cgroup_driver=info.get("CgroupDriver"),
        cgroup_version=info.get("CgroupVersion"),
        storage_driver=info.get("Driver"),
        root_dir=info.get("DockerRootDir"),
        rootless=any("rootless" in option for option in security),
        cpus=info.get("NCPU"),
        memory_bytes=info.get("MemTotal"),
        gpu_driver="nvidia" if "nvidia" in (info.get("Runtimes") or {}) else None,
    )


def cdi_devices(info: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Devices that the engine itself has read; only engines from 28.2 say so."""
    found = info.get("DiscoveredDevices")
    if not isinstance(found, list):
        return None
    return tuple(str(device.get("ID")) for device in found if device.get("Source") == "cdi")


def read_api_version(text: str) -> str | None:
    """The engine's API version from ``docker version``."""
    server = (_json(text) or {}).get("Server") or {}
    version = server.get("ApiVersion") or next(
        (part.get("Details", {}).get("ApiVersion") for part in server.get("Components") or ()), None
    )
    return str(version) if version else None


def read_plugin_version(text: str) -> str | None:
    """The version in ``docker compose version --short`` or ``docker buildx version``."""
    found = re.search(r"v?(\d+\.\d+(?:\.\d+)?)", text.removeprefix("github.com/docker/buildx "))
    return found.group(1) if found else None


def read_containers(text: str) -> tuple[Container, ...] | Unknown:
    """Running containers from ``docker ps``, one JSON object a line."""
    rows = [_json(line) for line in text.splitlines() if line.strip()]
    if any(row is None or "ID" not in row for row in rows):
        return Unknown(reason="docker ps gave a line that is no JSON object")
    return tuple(_container(row) for row in rows if row is not None)


def _container(row: Mapping[str, Any]) -> Container:
    labels = dict(part.partition("=")[::2] for part in str(row.get("Labels", "")).split(","))
    return Container(
        id=str(row["ID"]),
        name=str(row.get("Names", row["ID"])),
        image=row.get("Image"),
        project=labels.get(_LABEL_PROJECT),
        stack=labels.get(_LABEL_STACK),
        ports=_published(str(row.get("Ports", ""))),
    )


def _published(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for first, last in _PUBLISHED.findall(text):
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def read_images(text: str) -> tuple[LocalImage, ...]:
    """Images with a name, smallest first, from ``docker image ls --format {{json .}}``."""
    found = []
    for line in text.splitlines():
        row = _json(line) or {}
        name, tag = row.get("Repository"), row.get("Tag")
        if name and tag and "<none>" not in (name, tag):
            found.append(LocalImage(reference=f"{name}:{tag}", size_bytes=_size(str(row.get("Size", "")))))
    return tuple(sorted(found, key=lambda image: (image.size_bytes, image.reference)))


def _size(text: str) -> int:
    found = _SIZE.match(text)
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if found else 1 << 62


def lacks_gpu_driver(stderr: str) -> bool:
    """Whether a refused container was refused because the engine knows no way to give it GPUs."""
    return any(mark in stderr for mark in _NO_DRIVER)


def refuses_rlimit(stderr: str) -> bool:
    """Whether the engine could not raise a limit (an LXC or rootless host): runc's own words."""
    return "error setting rlimit" in stderr or "setting rlimits" in stderr


def _json(text: str) -> dict[str, Any] | None:
    try:
        read = json.loads(text)
    except ValueError:
        return None
    return read if isinstance(read, dict) else None
