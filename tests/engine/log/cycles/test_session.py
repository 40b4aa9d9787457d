"""Logs of real sessions are without anomalies, and the fold follows them while they run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.log.cycles import CycleFold, cycles_of, rounds_of, steps_of
from engine.log.cycles.views import AiBlock
from engine.log.event_log import lookup_in
from engine.log.events import Event
from engine.log.events.execution import ExecutionStarted
from engine.log.events.session import ProjectionSent
from engine.session.session import Session
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[Session]:
    async with sessions_of(tmp_path) as sessions:
        yield await sessions.create(str(tmp_path))


async def until_running(session: Session) -> None:
    subscription = session.subscribe()
    if any(isinstance(event, ExecutionStarted) for event in session.events):
        return
    async for batch in subscription.batches(pace=0):
        if any(isinstance(item, ExecutionStarted) for item in batch):
            return


async def test_queued_prompts_become_cycles_in_order_and_helpers_are_grouped(tmp_path: Path) -> None:
    async with opened(tmp_path) as session:
        for ticket in [session.accept(text) for text in ("ls('.'); ls('.')", "x = 2", "x")]:
            await ticket.end()
        log = session.events
    model = cycles_of(log)

    assert [cycle.root_kind for cycle in model.cycles] == ["direct", "followUp", "followUp"]
    assert model.anomalies == model.queue == model.strays == model.withdrawn == ()
    block = steps_of(model.cycles[0])[1]
    assert isinstance(block, AiBlock)
    assert [call.call.tool for call in block.statements] == ["python"]
    assert [(group.name, len(group.calls)) for group in block.groups] == [("read-group", 2)]
    prompted = [rounds_of(cycle) for cycle in model.cycles]
    replies = sum(isinstance(event, ProjectionSent) for event in log)
    assert sum(len(loop.rounds) + bool(loop.unread) for loop in prompted) == replies


async def test_a_cancelled_run_with_a_queue_and_an_unread_steer(tmp_path: Path) -> None:
    async with opened(tmp_path) as session:
        running, waiting = session.accept("while True: pass"), session.accept("x = 1")
        await until_running(session)
        steer = session.accept("be brief", wanted="steer")
        assert cycles_of(session.events).active
        session.cancel()
        for ticket in (running, waiting, steer):
            await ticket.end()
        log = session.events
    model = cycles_of(log)

    assert [cycle.stop and cycle.stop.reason for cycle in model.cycles] == ["interrupted"]
    assert {(each.message_id, each.text) for each in model.withdrawn} == {
        (waiting.message_id, "x = 1"),
        (steer.message_id, None),
    }
    assert model.anomalies == model.queue == model.strays == ()
    follows(log)


def follows(log: tuple[Event, ...] | list[Event]) -> None:
    live = CycleFold(lookup_in(log))
    for count, event in enumerate(log, 1):
        live.apply(event)
        assert live.model == cycles_of(log[:count])
