"""A session whose store was full for a while goes on when there is room again, with what was kept of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.core.errors import SessionReadOnlyError
from engine.session.registry import Sessions
from tests.support.full_store import FullStore
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> FullStore:
    return FullStore()


@pytest.fixture
async def sessions(store: FullStore, tmp_path: Path) -> AsyncIterator[Sessions]:
    lent: Any = store
    async with sessions_of(tmp_path, lent) as opened:
        yield opened


@pytest.mark.slow
async def test_it_is_looked_at_until_there_is_room_and_then_goes_on(
    store: FullStore, sessions: Sessions, tmp_path: Path
) -> None:
    session = await sessions.open("work", str(tmp_path))
    await session.cell("a = 1")
    store.is_full = True
    with pytest.raises(SessionReadOnlyError, match="the disk is full"):
        await session.cell("b = 2")
    assert session.is_read_only
    assert await sessions.renew(session) is session
    assert (await session.look()).rows == ()
    with pytest.raises(SessionReadOnlyError, match="the disk is full"):
        await session.cell("c = 3")
    store.is_full = False
    renewed = await sessions.renew(session)
    assert renewed is not session
    assert await sessions.renew(session) is renewed
    with pytest.raises(SessionReadOnlyError, match="the disk is full"):  # of a call that found it before
        await session.cell("late = 4")
    assert [cell.statement.source for cell in renewed.cells] == ["a = 1"]
    assert (await renewed.cell("a, 'b' in globals()")).value == "(1, False)"
    assert sessions.find(renewed.session_id) is renewed
    with anyio.fail_after(1):
        await sessions.close(renewed.session_id)


async def test_one_that_is_not_read_only_stays_as_it_is(sessions: Sessions, tmp_path: Path) -> None:
    session = await sessions.open("work", str(tmp_path))
    assert await sessions.renew(session) is session
