"""A session that could not be kept for a while goes on when it is loaded again, with what was kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.full_store import FullStore
from tests.support.memory import in_memory

pytestmark = pytest.mark.anyio


async def test_loading_a_session_again_that_became_read_only_has_it_go_on(tmp_path: Path) -> None:
    store: Any = FullStore()
    async with in_memory(tmp_path, store=store) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "a = 1")
        store.is_full = True
        for _ in range(2):
            said = await client.error(
                "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "b = 2"}]}
            )
            assert said["message"].endswith("is read-only: the disk is full; when that is mended, open it again")
        store.is_full = False
        await client.load(session, tmp_path)
        assert await client.prompt(session, "c = a") == "end_turn"
