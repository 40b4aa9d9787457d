"""Sessions over a real worker: the queue, what is recorded, and how they come back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from engine.context.model import ModelSignal, Prompt, TextDelta
from engine.core.clock import SystemClock
from engine.core.errors import SessionBusyError, SessionNotFoundError, SessionReadOnlyError, TurnFailedError
from engine.core.ids import ExecutionId, MessageId, Seq, SessionId, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import Attachment, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import (
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    StatementRecorded,
)
from engine.log.events.session import EnvironmentRestored, PromptQueued, PromptWithdrawn, SessionOpened
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import CommitListener
from engine.log.user_message import user_text
from engine.runtime.worker_environment import WorkerEnvironment
from engine.session.journal import OutputStreamed
from engine.session.queue import MAX_QUEUED
from engine.session.session import Session
from tests.support.models import AnsweringModel, says
from tests.support.sessions import LentStore, sessions_of
from tests.support.stores import kept_log
from tests.support.workers import shared_zygote

pytestmark = pytest.mark.anyio
SECONDS = 30.0


def kinds(session: Session, *wanted: type[Event]) -> list[Event]:
    return [event for event in session.events if isinstance(event, wanted)]


def values(session: Session) -> list[str | None]:
    return [event.value for event in session.events if isinstance(event, ExecutionFinished)]


async def run(session: Session, text: str) -> str:
    return (await session.accept(text).end()).cause


async def until_running(session: Session) -> None:
    subscription = session.subscribe()
    if kinds(session, ExecutionStarted):
        return
    async for batch in subscription.batches(pace=0):
        if any(isinstance(item, ExecutionStarted) for item in batch):
            return


async def test_prompts_are_served_in_turn_and_the_later_ones_are_follow_ups(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        tickets = [session.accept(text) for text in ("x = 1", "x += 1", "x")]
        assert [(await ticket.end()).cause for ticket in tickets] == ["end_turn"] * 3
        messages = [event for event in session.events if isinstance(event, UserMessage)]
        assert [event.prompt_kind for event in messages] == ["direct", "follow_up", "follow_up"]
        assert len(kinds(session, PromptQueued)) == 2
        assert values(session)[-1] == "2"


async def test_a_cancel_withdraws_what_waits_and_ends_what_runs(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        running, waiting = session.accept("while True: pass"), session.accept("x = 1")
        await until_running(session)
        session.cancel()
        assert [(await ticket.end()).cause for ticket in (running, waiting)] == ["cancelled", "cancelled"]
        assert len(kinds(session, PromptWithdrawn)) == 1
        assert [event.source for event in session.events if isinstance(event, StatementRecorded)] == [
            "while True: pass"
        ]
        assert await run(session, "'after'") == "end_turn"


async def test_a_cancel_of_an_idle_session_does_not_hit_the_next_turn(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        session.cancel()
        assert await run(session, "1") == "end_turn"
        session.cancel()
        assert await run(session, "2") == "end_turn"


async def test_too_many_waiting_prompts_are_refused(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for _ in range(MAX_QUEUED):
            session.accept("while True: pass")
        with pytest.raises(SessionBusyError, match="prompts wait already"):
            session.accept("1")
        session.cancel()


async def test_a_closed_session_takes_no_prompt_and_is_found_no_more(tmp_path: Path) -> None:
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


async def test_what_a_statement_asks_of_the_host_is_recorded_and_kept_from_the_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content")
    store = MemoryStore(SystemClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(
            session, "text = read('a.txt')\ntry:\n    read('/etc/passwd')\nexcept PermissionError as e:\n    print(e)"
        )
        (asked, _denied) = kinds(session, EffectRequested)
        assert isinstance(asked, EffectRequested)
        assert (asked.operation, asked.ordinal) == ("read", 0)
        answered, refused = kinds(session, EffectAnswered)
        assert isinstance(answered, EffectAnswered)
        assert answered.result is not None
        assert store.blob_get(answered.result) == b'"content"'
        assert isinstance(refused, EffectAnswered)
        assert refused.error is not None
        assert refused.error.type == "PermissionError"
        calls = [event for event in session.events if isinstance(event, ToolCall)]
        parent = calls[0].tool_call_id
        assert [call.parent_id for call in calls] == [None, parent, parent]
        projection = await session.projection()
        assert [call.tool for call in projection.prompt.messages if isinstance(call, ToolCall)] == ["python"]


async def test_a_lost_worker_is_rebuilt_from_the_timeline_with_recorded_answers(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("then")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for text in ("text = read('a.txt')", "count = len(text)", "import os; os._exit(1)"):
            await run(session, text)
        source.write_text("now, and longer")
        await run(session, "(text, count)")
        assert values(session)[-1] == "('then', 4)"
        (restored,) = kinds(session, EnvironmentRestored)
        assert isinstance(restored, EnvironmentRestored)
        assert restored.executions >= 2


async def test_a_rebuild_does_not_touch_the_users_files(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "with open('log.txt', 'a') as f: _ = f.write('once')")
        await run(session, "import os; os._exit(1)")
        await run(session, "1")
        assert (tmp_path / "log.txt").read_text() == "once"
        (restored,) = kinds(session, EnvironmentRestored)
        assert isinstance(restored, EnvironmentRestored)
        assert restored.divergences == ()


async def test_secrets_are_neither_visible_to_statements_nor_recorded(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, EXAMPLE_API_KEY="sk-very-secret", LANG="C.UTF-8") as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "import os\nprint(os.environ.get('LANG'), 'EXAMPLE_API_KEY' in os.environ)")
        await run(session, "print('sk-very-' + 'secret')\n'sk-very-' + 'secret'")
        outputs = [event.stdout.text for event in session.events if isinstance(event, ExecutionFinished)]
        assert outputs == ["C.UTF-8 False\n", "***\n"]
        assert values(session)[-1] == "'***'"
        assert not [event for event in session.events if "sk-very-secret" in str(event)]


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


async def test_a_loaded_session_has_its_names(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "x = 40")
        await sessions.close(session.session_id)
        again = await sessions.load(session.session_id)
        await run(again, "x + 2")
        assert values(again)[-1] == "42"


async def test_a_defect_of_ours_ends_the_turn_and_not_the_session(tmp_path: Path) -> None:
    replies = iter(["defect", "answer"])

    def answer(_: Prompt) -> list[ModelSignal]:
        if next(replies) == "defect":
            raise ZeroDivisionError
        return [TextDelta("Yes.")]

    async with sessions_of(tmp_path, model=AnsweringModel(answer)) as sessions:
        session = await sessions.create(str(tmp_path))
        end = await session.accept("1").end()
        assert isinstance(end.failure, TurnFailedError)
        assert await run(session, "2") == "end_turn"
        stops = [event.cause for event in session.events if isinstance(event, RunStop)]
        assert stops == ["error", "end_turn"]


async def test_a_script_element_in_prose_is_a_statement(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, 'Look:\n<script type="text/x-python">\n6 * 7\n</script>')
        assert values(session) == ["42"]


async def test_a_worker_that_was_killed_while_idle_is_replaced_before_the_next_statement(tmp_path: Path) -> None:
    made: list[WorkerEnvironment] = []

    def make() -> WorkerEnvironment:
        made.append(WorkerEnvironment(shared_zygote()))
        return made[-1]

    async with sessions_of(tmp_path, environments=make) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "x = 41")
        (worker,) = made
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        assert await run(session, "x + 1") == "end_turn"
        assert values(session)[-1] == "42"


async def test_a_secret_is_recorded_nowhere_whoever_says_it(tmp_path: Path) -> None:
    secret = 'quo"ted-secret'
    (tmp_path / "a.txt").write_text(secret)
    async with sessions_of(tmp_path, EXAMPLE_TOKEN=secret) as sessions:
        session = await sessions.create(str(tmp_path))
        published = session.subscribe()
        await run(session, f"text = read('a.txt'); handle = view('a.txt'); print(text)\n# {secret}")
        await sessions.close(session.session_id)
        seen = [item async for batch in published.batches(pace=0) for item in batch]
        assert len(seen) > 10
        assert not [item for item in (*seen, *session.events) if "ted-secret" in str(item)]


async def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        assert await run(session, "read('pipe')") == "end_turn"
        (finished,) = kinds(session, ExecutionFinished)
        assert isinstance(finished, ExecutionFinished)
        assert finished.exception is not None
        assert "a named pipe, not a regular file" in finished.exception.message


async def test_a_prompt_withdrawn_when_nothing_can_be_recorded_any_more_still_ends(tmp_path: Path) -> None:
    listeners: list[CommitListener] = []

    class FullStore(LentStore):
        def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
            listeners.append(committed)
            store.acquire(session_id, committed)

    store = MemoryStore(SystemClock())
    async with sessions_of(tmp_path, FullStore(store)) as sessions:
        session = await sessions.create(str(tmp_path))
        running, waiting = session.accept("while True: pass"), session.accept("1")
        await until_running(session)
        listeners[0](Seq(-1), OSError("disk full"))
        await anyio.sleep(0.01)
        session.cancel()
        for ticket in (running, waiting):
            assert isinstance((await ticket.end()).failure, SessionReadOnlyError)


async def test_an_attachment_does_not_take_a_name_that_a_statement_bound(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("content\n")
    attached = Attachment(uri=(tmp_path / "data").as_uri(), name="data")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "data = [1, 2]")
        await session.accept(["data", attached]).end()
        assert values(session)[-1] == "[1, 2]"
        sources = [event.source for event in session.events if isinstance(event, StatementRecorded)]
        assert sources[1].startswith("data_2 = view(")


async def test_an_attachment_is_opened_whatever_a_statement_bound_view_to(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("content\n")
    attached = Attachment(uri=(tmp_path / "data").as_uri(), name="data")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "view = __rewindow__ = 5")
        assert session.rebound == {"view"}
        await session.accept(["(data.title, view)", attached]).end()
        assert values(session)[-1] == "('data', 5)"


async def test_a_model_reads_a_mention_in_its_place_and_why_a_link_is_not_open(tmp_path: Path) -> None:
    model = AnsweringModel(says("Looked."))
    calc = Attachment(uri=(tmp_path / "calc.py").as_uri(), name="calc.py", text="x = 1\n")
    web = Attachment(uri="https://example.org/x", name="x")
    async with sessions_of(tmp_path, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept(["look at ", calc, " and fix it as in ", web]).end()
    (read,) = [event for event in model.prompts[0].messages if isinstance(event, UserMessage)]
    assert user_text(read).startswith(
        f"look at [calc.py]({calc.uri}) and fix it as in [x]({web.uri}) (not opened: web pages are not fetched"
    )
    assert user_text(read).endswith("calc.py as it came with this prompt:\n```\nx = 1\n```")
    assert "calc_py" in model.prompts[0].tail


async def test_what_can_be_answered_while_a_statement_runs_is(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
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


async def test_plan_mode_refuses_what_would_change_something_outside(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("plan")
        await run(session, "open('new.txt', 'w')")
        (finished,) = kinds(session, ExecutionFinished)
        assert isinstance(finished, ExecutionFinished)
        assert finished.exception is not None
        assert (finished.exception.type, (tmp_path / "new.txt").exists()) == ("PermissionError", False)
        session.set_mode("ask")
        await run(session, "open('new.txt', 'w').close()")
        assert (tmp_path / "new.txt").exists()


async def test_prompts_that_waited_when_the_process_died_are_withdrawn_when_it_is_loaded(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    session_id = SessionId("ses_waiting")
    waiting = MessageId("m2")
    kept_log(
        store, session_id, str(tmp_path), [SessionOpened(cwd=str(tmp_path)), PromptQueued(message_id=waiting, text="x")]
    )
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.load(session_id)
        assert [event.kind for event in session.events[2:]] == ["prompt_withdrawn"]


async def test_what_a_stopped_statement_had_bound_by_then_is_there_after_a_rebuild(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "x = 1")
        subscription = session.subscribe()
        ticket = session.accept(
            "x = 2\nlock = __import__('threading').Lock()\nprint('set', flush=True)\nwhile True: pass"
        )
        async for batch in subscription.batches(pace=0):
            if any(isinstance(item, OutputStreamed) for item in batch):
                break
        session.cancel()
        await ticket.end()
        await run(session, "import os; os._exit(1)")
        await run(session, "x")
        (restored,) = kinds(session, EnvironmentRestored)
        assert isinstance(restored, EnvironmentRestored)
        assert values(session)[-1] == "2"
        assert restored.divergences == (
            "<statement 2> was stopped (cancelled), and is not run again; x set from what was kept; "
            "no copy of lock (it holds a lock, which cannot be copied)",
        )


async def test_a_long_value_takes_no_more_than_its_share_of_the_window(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "list(range(3000))")
        await run(session, "'x' * 100_000")
        items, text = values(session)
    assert items is not None
    assert text is not None
    assert items.endswith(" 999, ...]")
    assert len(text) < 6_500
    assert "characters left out" in text
