"""What every test of the project may rely on."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A deadline for each example measures how busy the machine is, not the code.
settings.register_profile("rewindow", deadline=None)
settings.load_profile("rewindow")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
