"""Session-wide private engines for tests: ``gpu_host`` (8 PCIe GPUs), ``nvlink_host``, ``gpuless_host``."""

from collections.abc import Iterator

import pytest
from gpuhost.gpu_host import GpuHost, running_gpu_host


@pytest.fixture(scope="session")
def gpu_host() -> Iterator[GpuHost]:
    """Eight PCIe GPUs in two halves, reachable by runtime hook and CDI."""
    with running_gpu_host() as host:
        yield host


@pytest.fixture(scope="session")
def nvlink_host() -> Iterator[GpuHost]:
    """Eight GPUs, all linked by NVLink."""
    with running_gpu_host(gpu_class="nvlink") as host:
        yield host


@pytest.fixture(scope="session")
def gpuless_host() -> Iterator[GpuHost]:
    """An engine whose host has neither hook nor CDI spec."""
    with running_gpu_host(drivers=()) as host:
        yield host
