"""One browser for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, browser


@pytest.fixture(scope="session")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started
