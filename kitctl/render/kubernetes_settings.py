"""What does a Kubernetes folder need that neither stack nor plan say? Read from data, checked at the door."""

from __future__ import annotations

import math
import tomllib

import msgspec


class Probes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How /health is asked while the engine starts and when it serves, in seconds."""

    path: str
    timeout_least_s: int
    startup_period_s: int
    startup_timeout_s: int
    ready_period_s: int
    ready_timeout_s: int
    ready_failures: int


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model store's claim, and the Job that fills it. ``wait_s``: between two looks whether it is whole."""

    headroom: float
    least_bytes: int
    job_memory_bytes: int
    job_retries: int
    wait_s: int
    token_secret: str
    token_key: str


class Metrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often Prometheus asks."""

    interval: str


class Findings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Codes of findings that say nothing of the nodes of a cluster."""

    of_one_machine: tuple[str, ...]


class KubernetesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``kubernetes.toml``."""

    single_host_environment: tuple[str, ...]
    single_host_tuning: tuple[str, ...]
    gpus_per_node: int
    kitctl_image: str
    network_interface: str
    dist_port: int
    dist_timeout_s: int
    run_as_user: int
    startup_budget_factor: float
    probes: Probes
    store: Store
    metrics: Metrics
    findings: Findings

    def startup_budget_s(self, start_period_s: int) -> int:
        """The longest start that is waited for, when the stack says that one takes ``start_period_s``."""
        return math.ceil(start_period_s * self.startup_budget_factor)


def read_settings(text: str) -> KubernetesSettings:
    """The settings in ``text``. Raises msgspec.ValidationError for a file that is not whole."""
    return msgspec.convert(tomllib.loads(text), KubernetesSettings)
