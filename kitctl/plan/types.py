"""What is a plan? A stack on one host, decided down to argv, environment, GPUs, mounts, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kitctl.finding import Finding
from kitctl.kit.overlay import Scope
from kitctl.kit.stack import Stack
from kitctl.plan.rank import Rank


class GpuDriver(StrEnum):
    """How GPUs reach the container: the NVIDIA runtime hook, a CDI device, or not at all."""

    NVIDIA = "nvidia"
    CDI = "cdi"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for on the command line."""

    stack: str
    settings: tuple[tuple[str, Any], ...] = ()
    gpus: str | None = None
    overlay: str | None = None
    addons: tuple[str, ...] = ()
    port: int | None = None
    bind: str | None = None
    name: str | None = None
    rehearse: bool = False
    boot: bool = False
    engine_flags: tuple[str, ...] = ()
    image: str | None = None
    rank: Rank | None = None
    api_key_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedModel:
    """Where one model of the plan lies. ``folder`` is mounted read-only at ``/models/KEY``; ``inner`` is the
    path below it that the engine is given (``snapshots/<commit>``, empty for the folder itself). ``generated``: the
    kit brings the files (once it made them; a published key keeps its name)."""

    model: str
    role: str
    folder: str
    inner: str = ""
    missing_bytes: int | None = 0
    commit: str | None = None
    generated: bool = False
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Mount:
    """One mount: a host folder (``bind``) or a named volume (``volume``)."""

    kind: str
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, kw_only=True)
class GpuReservation:
    """The GPUs that the container gets: exactly these ids (index, UUID or CDI name), through this driver.

    ``indices`` are the same GPUs as the driver numbers them.
    """

    driver: GpuDriver
    ids: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Published:
    """Where the stack answers: ``bind:port`` on the host, ``container_port`` inside."""

    bind: str
    port: int
    container_port: int


@dataclass(frozen=True, kw_only=True)
class AddonService:
    """A service that an add-on brings beside the engine, and the image that it runs.

    ``sees_gpus``: it watches the plan's GPUs.
    """

    name: str
    image: str
    is_locked: bool
    sees_gpus: bool = False


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A port of an add-on's service: ``bind:port`` on the host, ``container_port`` inside."""

    name: str
    service: str
    scope: Scope
    bind: str
    port: int
    container_port: int


@dataclass(frozen=True, kw_only=True)
class ImageChoice:
    """The image that serves: its reference, and the pin set and stage that it is built from, when the kit's."""

    reference: str
    release: str | None
    stage: str
    name: str | None
    pins_hash: str | None = None
    cuda: str | None = None
    archs: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The decision. ``why`` maps a field (``overlay``, ``parallel.ep``, ``argv.--tp-size``) to its reason."""

    stack: Stack
    project: str
    image: ImageChoice
    overlays: tuple[str, ...]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    gpus: GpuReservation
    models: tuple[PlannedModel, ...]
    mounts: tuple[Mount, ...]
    published: Published
    model_name: str
    rehearsal: bool = False
    boot: bool = False
    rank: Rank | None = None
    api_key_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    addon_services: tuple[AddonService, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, Any] | None = None
    load: Mapping[str, Any] | None = None
