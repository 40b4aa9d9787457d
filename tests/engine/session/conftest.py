"""What tests of sessions share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine import Session
from tests.support.sessions import session_in


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """A new session over a real worker in `tmp_path`, without a model."""
    async with session_in(tmp_path) as opened:
        yield opened
