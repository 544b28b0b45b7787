"""Fixtures that several folders of tests share, and the flag that accepts changed gold files."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuhost.fixtures import gpu_host, gpuless_host, nvlink_host
from hypothesis import HealthCheck, settings
from kitctl_process import KitUser, new_user
from remotehost.fixtures import far_user, remote_host
from stub_engine.image import stub_image

__all__ = ["far_user", "gpu_host", "gpuless_host", "nvlink_host", "remote_host"]
settings.register_profile("kitctl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kitctl")


def pytest_configure() -> None:
    """Ctrl-C reaches the processes that tests start, also where a shell started pytest in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="write what came as the new gold file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have to tell of their run (``record_property("told", LINE)``) is shown though they passed."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    for line in (value for report in reports for name, value in report.user_properties if name == "told"):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def accept(request: pytest.FixtureRequest) -> bool:
    """Whether changed gold files are written instead of refused."""
    return bool(request.config.getoption("--accept"))


@pytest.fixture
def kit_user(tmp_path: Path) -> Iterator[KitUser]:
    """A user of kitctl with folders, name and port of its own."""
    with new_user(tmp_path) as user:
        yield user


@pytest.fixture(scope="session")
def stub() -> str:
    """The image of the stub engine on this machine's engine."""
    return stub_image()
