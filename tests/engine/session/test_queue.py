"""The queue alone: its requests end even if its task does not go on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.core.ids import MessageId
from engine.log.user_message import Composed
from engine.session.queue import RequestQueue
from engine.session.requests import Ticket
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.models import AnsweringModel, says
from tests.support.session_parts import session_parts
from tests.support.workers import PATIENCE

pytestmark = pytest.mark.anyio


async def test_cancelled_queue_ends_its_requests(tmp_path: Path) -> None:
    starts = anyio.Event()

    async def stuck(moment: Moment) -> None:
        if moment == "start":
            starts.set()
            await anyio.sleep_forever()

    queue = RequestQueue(
        session_parts(
            tmp_path, environments=lambda: HollowEnvironment(stuck), models=lambda: AnsweringModel(says("Hi."))
        )
    )
    tickets = [Ticket(MessageId(f"m{number}"), Composed("1"), "direct", cell=True) for number in range(2)]
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            queue.start(tasks)
            for ticket in tickets:
                queue.take(ticket, None)
            await starts.wait()
            tasks.cancel_scope.cancel()
        assert [(await ticket.end()).cause for ticket in tickets] == ["cancelled", "cancelled"]
        await queue.idle()
