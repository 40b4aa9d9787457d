"""Sessions over a real worker: the queue, what is recorded, and how they come back."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.core.errors import SessionBusyError, SessionNotFoundError, SessionReadOnlyError
from engine.core.ids import ExecutionId, MessageId, SessionId, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import Attachment, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import (
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    StatementRecorded,
)
from engine.log.events.session import PromptQueued, PromptWithdrawn, SessionOpened
from engine.log.store.memory import MemoryStore
from engine.log.user_message import user_text
from engine.session.queue import MAX_QUEUED
from engine.session.session import Session
from tests.support.full_store import FullStore
from tests.support.models import AnsweringModel, says
from tests.support.sessions import events_of, session_in, sessions_of
from tests.support.stores import kept_log

pytestmark = pytest.mark.anyio


def values(session: Session) -> list[str | None]:
    return [event.value for event in events_of(session, ExecutionFinished)]


async def run(session: Session, text: str) -> str:
    return (await session.accept(text).end()).cause


async def until_running(session: Session) -> None:
    subscription = session.subscribe()
    if events_of(session, ExecutionStarted):
        return
    async for batch in subscription.batches(pace=0):
        if any(isinstance(item, ExecutionStarted) for item in batch):
            return


async def test_prompts_run_in_turn_and_later_ones_are_follow_ups(session: Session) -> None:
    tickets = [session.accept(text) for text in ("x = 1", "x += 1", "x")]
    assert [(await ticket.end()).cause for ticket in tickets] == ["end_turn"] * 3
    messages = events_of(session, UserMessage)
    assert [event.prompt_kind for event in messages] == ["direct", "follow_up", "follow_up"]
    assert len(events_of(session, PromptQueued)) == 2
    assert values(session)[-1] == "2"


async def test_a_cancel_withdraws_what_waits_and_ends_what_runs(session: Session) -> None:
    running, waiting = session.accept("while True: pass"), session.accept("x = 1")
    await until_running(session)
    session.cancel()
    assert [(await ticket.end()).cause for ticket in (running, waiting)] == ["cancelled", "cancelled"]
    assert len(events_of(session, PromptWithdrawn)) == 1
    assert [event.source for event in events_of(session, StatementRecorded)] == ["while True: pass"]
    assert await run(session, "'after'") == "end_turn"


async def test_cancel_of_an_idle_session_spares_the_next_turn(session: Session) -> None:
    session.cancel()
    assert await run(session, "1") == "end_turn"
    session.cancel()
    assert await run(session, "2") == "end_turn"


async def test_too_many_waiting_prompts_are_refused(session: Session) -> None:
    for _ in range(MAX_QUEUED):
        session.accept("while True: pass")
    with pytest.raises(SessionBusyError, match="prompts are waiting already"):
        session.accept("1")
    session.cancel()


async def test_closed_session_takes_no_prompt_and_is_not_found(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        ticket = session.accept("while True: pass")
        await until_running(session)
        await sessions.close(session.session_id)
        assert (await ticket.end()).cause == "cancelled"
        with pytest.raises(SessionBusyError, match="is closed"):
            session.accept("1")
        with pytest.raises(SessionNotFoundError):
            sessions.find(session.session_id)


async def test_effects_are_recorded_and_hidden_from_the_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content")
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store) as session:
        await run(
            session, "text = read('a.txt')\ntry:\n    read('/etc/passwd')\nexcept PermissionError as e:\n    print(e)"
        )
        (asked, _denied) = events_of(session, EffectRequested)
        assert isinstance(asked, EffectRequested)
        assert (asked.operation, asked.ordinal) == ("read", 0)
        answered, refused = events_of(session, EffectAnswered)
        assert isinstance(answered, EffectAnswered)
        assert answered.result is not None
        assert store.blob_get(answered.result) == b'"content"'
        assert isinstance(refused, EffectAnswered)
        assert refused.error is not None
        assert refused.error.type == "PermissionError"
        calls = events_of(session, ToolCall)
        parent = calls[0].tool_call_id
        assert [call.parent_id for call in calls] == [None, parent, parent]
        projection = await session.projection()
        assert [call.tool for call in projection.prompt.messages if isinstance(call, ToolCall)] == ["python"]


async def test_a_log_whose_process_died_is_repaired_by_appending_once(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    session_id = SessionId("ses_crashed")
    call, statement = ToolCallId("c"), StatementId("st")
    crashed: list[Event] = [
        SessionOpened(cwd=str(tmp_path)),
        UserMessage(message_id=MessageId("m"), text="x = 1"),
        ToolCall(tool_call_id=call, tool="python"),
        StatementRecorded(statement_id=statement, index=1, source="x = 1", tool_call_id=call),
        ExecutionStarted(execution_id=ExecutionId("ex"), statement_id=statement),
        ToolCall(tool_call_id=ToolCallId("d"), tool="read", parent_id=call),
    ]
    kept_log(store, session_id, str(tmp_path), crashed)
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.load(session_id)
        repaired = session.events[len(crashed) :]
        assert [event.kind for event in repaired] == ["execution_finished", "tool_result", "tool_result", "run_stop"]
        assert [event.parent_id for event in repaired if isinstance(event, ToolResult)] == [None, call]
        assert await run(session, "'x' in globals()") == "end_turn"
        assert values(session)[-1] == "False"
        length = len(session.events)
        await sessions.close(session_id)
        again = await sessions.load(session_id)
        assert len(again.events) == length


async def test_a_script_element_in_prose_is_a_statement(session: Session) -> None:
    await run(session, 'Look:\n<script type="text/x-python">\n6 * 7\n</script>')
    assert values(session) == ["42"]


async def test_a_pipe_is_not_read(session: Session, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert await run(session, "read('pipe')") == "end_turn"
    (finished,) = events_of(session, ExecutionFinished)
    assert isinstance(finished, ExecutionFinished)
    assert finished.exception is not None
    assert "a named pipe, not a regular file" in finished.exception.message


async def test_withdrawn_prompt_ends_even_in_a_read_only_session(tmp_path: Path) -> None:
    store = FullStore()
    async with session_in(tmp_path, store) as session:
        running, waiting = session.accept("while True: pass"), session.accept("1")
        await until_running(session)
        store.fail(session.session_id)
        await anyio.sleep(0.01)
        session.cancel()
        for ticket in (running, waiting):
            assert isinstance((await ticket.end()).failure, SessionReadOnlyError)


async def test_attachment_takes_no_bound_name(session: Session, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("content\n")
    attached = Attachment(uri=(tmp_path / "data").as_uri(), name="data")
    await run(session, "data = [1, 2]")
    await session.accept(["data", attached]).end()
    assert values(session)[-1] == "[1, 2]"
    sources = [event.source for event in events_of(session, StatementRecorded)]
    assert sources[1].startswith("data_2 = view(")


async def test_an_attachment_is_opened_whatever_a_statement_bound_view_to(session: Session, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("content\n")
    attached = Attachment(uri=(tmp_path / "data").as_uri(), name="data")
    await run(session, "view = __rewindow__ = 5")
    assert session.rebound == {"view"}
    await session.accept(["(data.title, view)", attached]).end()
    assert values(session)[-1] == "('data', 5)"


async def test_model_reads_mentions_in_place_and_why_links_are_closed(tmp_path: Path) -> None:
    model = AnsweringModel(says("Looked."))
    calc = Attachment(uri=(tmp_path / "calc.py").as_uri(), name="calc.py", text="x = 1\n")
    web = Attachment(uri="https://example.org/x", name="x")
    async with session_in(tmp_path, model=model) as session:
        await session.accept(["look at ", calc, " and fix it as in ", web]).end()
    (read,) = [event for event in model.prompts[0].messages if isinstance(event, UserMessage)]
    assert user_text(read).startswith(
        f"look at [calc.py]({calc.uri}) and fix it as in [x]({web.uri}) (not opened: linked web pages are not fetched"
    )
    assert user_text(read).endswith("calc.py as attached to this prompt:\n```\nx = 1\n```")
    assert "calc_py" in model.prompts[0].tail


async def test_what_can_be_answered_while_a_statement_runs_is(session: Session) -> None:
    await run(session, "x = 1")
    ticket = session.accept("while True: pass")
    subscription = session.subscribe()
    async for batch in subscription.batches(pace=0):
        if any(isinstance(item, ExecutionStarted) for item in batch):
            break
    for command, expected in (
        ("/context", "As of statement 1; a turn is running."),
        ("/timeline", "2. `while True: pass` (running)"),
    ):
        assert (await session.accept(command).end()).cause == "end_turn"
        async for batch in subscription.batches(pace=0):
            assert expected in batch[0].text
            break
    session.cancel()
    assert (await ticket.end()).cause == "cancelled"


async def test_waiting_prompts_are_withdrawn_on_load_after_a_crash(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    session_id = SessionId("ses_waiting")
    waiting = MessageId("m2")
    kept_log(
        store, session_id, str(tmp_path), [SessionOpened(cwd=str(tmp_path)), PromptQueued(message_id=waiting, text="x")]
    )
    async with session_in(tmp_path, store, load=session_id) as session:
        assert [event.kind for event in session.events[2:]] == ["prompt_withdrawn"]
