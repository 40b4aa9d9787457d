"""The pump and the replay beside it: whatever happens meanwhile, everything is shown once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from acp_adapter.pump import Pump
from acp_adapter.updates import Updates
from engine.events.conversation import AgentText
from engine.events.session import SessionOpened
from engine.ids import MessageId, SessionId
from engine.log import EventLog
from engine.ports import SessionRow
from engine.sessions.journal import Journal
from engine.sessions.signals import TextStreamed
from engine.store.memory import MemoryStore
from tests.support.fixed import FixedClock

pytestmark = pytest.mark.anyio
SECONDS = 5.0
M = MessageId("m")


async def test_what_is_on_the_log_and_not_shown_yet_is_left_to_the_pump() -> None:
    session = SessionId("s")
    store = MemoryStore(FixedClock())
    store.create(SessionRow(session_id=session, cwd="/"))
    journal = Journal(store, session)
    store.acquire(session, journal.committed)
    log = EventLog(FixedClock(), journal.write)
    await journal.durable(log.append(SessionOpened(cwd="/")))
    sent: list[dict[str, Any]] = []

    async def send(update: dict[str, Any]) -> None:
        sent.append(update)
        await anyio.lowlevel.checkpoint()

    pump = Pump(journal.subscribe(), Updates("/"), send)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump.run)
            journal.signal(TextStreamed(M, "shown, "))
            await pump.caught_up()
            journal.signal(TextStreamed(M, "not yet"))
            seq = log.append(AgentText(message_id=M, text="shown, not yet"))
            await journal.durable(seq)
            sent.clear()
            await pump.replay(log, Updates("/"))
            await pump.sent(seq)
            assert [update["content"]["text"] for update in sent] == ["shown, ", "not yet"]
            sent.clear()
            await pump.replay(log, Updates("/"))
            assert [update["content"]["text"] for update in sent] == ["shown, not yet"]
            journal.close()
