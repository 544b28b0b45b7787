"""Fixtures that several folders of tests share, and the flag that accepts changed gold files."""

import pytest
from gpuhost.fixtures import gpu_host, gpuless_host, nvlink_host

__all__ = ["gpu_host", "gpuless_host", "nvlink_host"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="write what came as the new gold file")


@pytest.fixture(scope="session")
def accept(request: pytest.FixtureRequest) -> bool:
    """Whether changed gold files are written instead of refused."""
    return bool(request.config.getoption("--accept"))
