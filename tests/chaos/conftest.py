"""Fixtures of the chaos suite."""

import pytest
from stub.image import fault_image


@pytest.fixture(scope="session")
def fault_server() -> str:
    """The image of the fault server on this machine's engine."""
    return fault_image()
