"""What every test of the project may rely on."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support import long_tests, portable

if portable.is_on():
    portable.switch_on()  # before anything of the program is imported

# Until all tests are collected (`pytest_collection_finish`), because none of what they are made of is garbage.
gc.disable()

# No deadline and no complaint about slowness, because they measure how busy the machine is and not the code.
_ALWAYS = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _ALWAYS, max_examples=20, derandomize=True)
settings.register_profile("thorough", _ALWAYS, max_examples=100, derandomize=False, print_blob=True)
# Drawn anew only where somebody asks, so that a commit that passed once passes everywhere.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "quick")


# Tests that are not about the sandbox have agents without it: what a statement does there is what they look at.
os.environ.setdefault("REWINDOW_SANDBOX", "off")

collect_ignore = ["data"]
"""Projects that tests work on have tests of their own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if long_tests.is_long(item.nodeid):
            item.add_marker(pytest.mark.long)
    if portable.is_on():
        for item in items:
            if why := portable.reason(item.nodeid):
                item.add_marker(pytest.mark.skip(why))


def pytest_collection_finish() -> None:
    """Keeps ten thousand tests out of each collection, which would go through all of them: 0.3 s every time."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
