"""MCP servers of a session as programs: their tools are called from statements, recorded, and never called again."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine import HttpServer, PermissionAnswer, Session, StdioServer, Subscription
from engine.context.model import StatementAsked, TextDelta
from engine.core.clock import SystemClock
from engine.log.events.conversation import ToolCall
from engine.log.events.execution import ExecutionFinished
from engine.log.events.session import EnvironmentRestored, ServerConnected, ServerLost
from engine.log.store.memory import MemoryStore
from engine.session import servers as module
from engine.session.journal import OutputStreamed
from tests.support import mcp_server
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import events_of, session_in, sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SECONDS = 10.0


def server(*words: str, name: str = "test", record: Path | None = None, **variables: str) -> StdioServer:
    given = {"MCP_TEST_RECORD": str(record)} if record else {}
    return StdioServer(
        name=name, command=sys.executable, args=("-S", mcp_server.__file__, *words), env={**given, **variables}
    )


async def ran(session: Session, source: str) -> ExecutionFinished:
    """A prompt of the direct model: the user's own statement."""
    assert (await session.accept(source).end()).failure is None
    finished = session.cells[-1].finished
    assert finished is not None
    return finished


async def failed(session: Session, source: str) -> str:
    finished = await ran(session, source)
    assert finished.exception is not None, finished
    return f"{finished.exception.type}: {finished.exception.message}"


def requests(record: Path, method: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [line for line in lines if line.get("method") == method]


async def first_output(published: Subscription) -> str:
    """The first piece of output that is shown."""
    with anyio.fail_after(SECONDS):
        async for batch in published.batches(pace=0):
            for item in batch:
                if isinstance(item, OutputStreamed):
                    return item.text
    raise AssertionError


async def test_branch_from_before_a_server_knows_it(tmp_path: Path) -> None:
    async with session_in(tmp_path, servers=[server()]) as session:
        assert (await ran(session, "test.add_one(n=2)")).value == "3"
        await session.rewind(0)
        assert [event.module for event in session.path if isinstance(event, ServerConnected)] == ["test"]
        assert (await ran(session, "test.add_one(n=4)")).value == "5"
        await session.switch("main")
        assert len([event for event in session.path if isinstance(event, ServerConnected)]) == 1


async def test_tool_call_of_a_statement_is_recorded_with_its_answer(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with session_in(tmp_path, servers=[server(record=record)]) as session:
        session.connect()
        finished = await ran(session, "answer = test.add_one(n=4)\n(answer.text, answer.data, answer)")
        assert finished.value == "('5', {'made': 5}, 5)"
        (call,) = [event for event in events_of(session, ToolCall) if event.parent_id]
        assert (call.tool, call.arguments) == ("test.add_one", {"n": 4})
        (told,) = events_of(session, ServerConnected)
        assert (told.server, told.module, told.tools, told.resources) == ("test", "test", 5, 1)
        assert [each["params"]["name"] for each in requests(record, "tools/call")] == ["add-one"]


async def test_what_a_statement_gets_wrong_is_said_and_not_sent(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with session_in(tmp_path, servers=[server(record=record)]) as session:
        assert await failed(session, "test.add_one()") == (
            "TypeError: test.add_one() needs the argument n: (n: int, from_: str = 'x')"
        )
        assert await failed(session, "test.add_one(4)") == (
            "TypeError: test.add_one() takes its arguments by name only; help(test.add_one) shows them"
        )
        assert await failed(session, "test.ad_one(n=4)") == (
            "AttributeError: test.ad_one: the server has no such tool; did you mean add_one?"
        )
        assert await failed(session, "test.fail()") == "RuntimeError: MCP server 'test': no luck"
        assert [each["params"]["name"] for each in requests(record, "tools/call")] == ["fail"]


async def test_a_rebuild_and_a_load_call_nobody(tmp_path: Path) -> None:
    record, store = tmp_path / "record", MemoryStore(SystemClock())
    async with session_in(tmp_path, store, servers=[server(record=record)]) as session:
        await ran(session, "kept = [test.add_one(n=n).text for n in range(3)]")
        await ran(session, "help(test)\nalso = [test, test.add_one]")
        await session.rest()
        assert (await ran(session, "kept")).value == "['1', '2', '3']"
    async with session_in(tmp_path, store, load=session.session_id, servers=[server(record=record)]) as again:
        assert (await ran(again, "kept, also[0].__name__")).value == "(['1', '2', '3'], 'test')"
        assert (await ran(again, "test.add_one(n=10).text")).value == "'11'"
    async with session_in(tmp_path, store, load=session.session_id) as without:
        assert (await ran(without, "kept")).value == "['1', '2', '3']"
        assert "is not configured in the editor now" in await failed(without, "test.add_one(n=1)")
        restored = events_of(without, EnvironmentRestored)
        assert [each.divergences for each in restored] == [()] * 3
        assert len(events_of(without, ServerConnected)) == 1
    assert [each["params"]["arguments"]["n"] for each in requests(record, "tools/call")] == [0, 1, 2, 10]


@pytest.mark.parametrize("about", ["acts", "statements"])
async def test_tool_call_of_a_model_is_always_asked(tmp_path: Path, about: str) -> None:
    record = tmp_path / "record"
    left = ["test.add_one(n=1)", "test.add_one(n=2)"]
    model = AnsweringModel(lambda _: [StatementAsked(left.pop(0))] if left else [TextDelta("Done.")])
    user = FixedPermissions(
        [
            PermissionAnswer(outcome="allowed"),
            PermissionAnswer(outcome="rejected"),
            PermissionAnswer(outcome="rejected"),
        ]
    )
    async with session_in(tmp_path, model=model, servers=[server(record=record)]) as session:
        session.set_option("ask_about", about)
        session.attach(user)
        await session.accept("go").end()
    subjects = [question.subject for question in user.questions]
    assert len(subjects) == 2
    if about == "acts":
        assert [(each.server, each.tool, json.loads(each.arguments)) for each in subjects] == [  # pyright: ignore
            ("test", "add-one", {"n": 1}),
            ("test", "add-one", {"n": 2}),
        ]
    assert [each["params"]["arguments"]["n"] for each in requests(record, "tools/call")] == [1]


async def test_plan_mode_calls_no_tool_and_shows_what_there_is(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with session_in(tmp_path, servers=[server(record=record)]) as session:
        session.set_mode("plan")
        assert "plan mode does not allow changes; test.add_one() was not called" in await failed(
            session, "test.add_one(n=1)"
        )
        assert "Adds one." in (await ran(session, "help(test)")).stdout.text
        assert requests(record, "tools/call") == []


async def test_dead_server_is_reported_once_and_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", (0.01, 0.01))
    bad = [
        server("dead", name="dead"),
        StdioServer(name="missing", command="/no/such/program"),
        HttpServer(name="nobody", url="http://127.0.0.1:9/mcp"),
        HttpServer(name="odd", url="no url at all"),
    ]
    async with session_in(tmp_path, servers=[*bad, server()]) as session:
        assert (await ran(session, "test.add_one(n=1).text")).value == "'2'"
        for name in ("dead", "missing", "nobody", "odd"):
            assert f"ConnectionError: MCP server '{name}' is not connected: " in await failed(session, f"{name}.x()")
        lost = events_of(session, ServerLost)
        assert sorted(each.server for each in lost) == ["dead", "missing", "nobody", "odd"]
        reasons = {each.server: each.reason for each in lost}
        assert "the server ended with code 1; it wrote: this server has no time" in reasons["dead"]
        assert reasons["missing"] == "there is no program /no/such/program"


async def test_the_end_of_what_a_server_wrote_has_no_part_of_a_key(tmp_path: Path) -> None:
    key = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvM"
    code = f"import sys; sys.stderr.write('{key}' + chr(10) * 1965 + 'bad option'); sys.exit(1)"
    dead = StdioServer(name="dead", command=sys.executable, args=("-S", "-c", code))
    async with session_in(tmp_path, servers=[dead]) as session:
        await failed(session, "dead.x()")
        (lost,) = events_of(session, ServerLost)
        assert "bad option" in lost.reason
        assert key[-8:] not in lost.reason


async def test_a_server_that_ends_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", (0.01, 0.01, 0.01))
    async with session_in(tmp_path, servers=[server()]) as session:
        assert "ConnectionError: MCP server 'test': the connection to the server ended" in await failed(
            session, "test.leave()"
        )
        assert (await ran(session, "test.add_one(n=1).text")).value == "'2'"
        (lost,) = events_of(session, ServerLost)
        assert (lost.again, "the server ended with code 3" in lost.reason) == (True, True)
        assert len(events_of(session, ServerConnected)) == 1


async def test_resource_is_viewed_as_read_and_not_read_again(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with session_in(tmp_path, servers=[server(record=record)]) as session:
        session.set_mode("plan")
        finished = await ran(session, "note = view('mcp://test/test://note', tokens=100)")
        (display,) = finished.displays
        assert (display.title, "1\tone\n2\ttwo" in display.text) == ("mcp://test/test://note", True)
        await session.rest()
        (shown,) = (await ran(session, "show(note)")).displays
        assert "2\ttwo" in shown.text
        assert len(requests(record, "resources/read")) == 1
        assert await failed(session, "view('mcp://test/test://none')") == (
            "PermissionError: plan mode does not allow changes; the resource was not read, because it is not listed"
        )
        assert await failed(session, "view('mcp://other/x')") == (
            "ValueError: 'mcp://other/x': no MCP server has the module 'other'; there are test"
        )
        assert [each.divergences for each in events_of(session, EnvironmentRestored)] == [()]


async def test_progress_is_shown_and_a_cancel_reaches_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record"
    async with session_in(tmp_path, servers=[server(record=record)]) as session:
        await ran(session, "1")
        published = session.subscribe()
        ticket = session.accept("test.slow()")
        assert await first_output(published) == "1/2 half\n"
        session.cancel()
        assert (await ticket.end()).cause == "cancelled"
        monkeypatch.setattr(module, "CALL_SECONDS", 0.05)
        assert "did not answer within 0.05 s, so the call was cancelled" in await failed(session, "test.slow()")
        assert len(requests(record, "notifications/cancelled")) == 2


async def test_a_session_that_is_closed_starts_no_server_any_more(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path), (), [server(record=record)])
        await sessions.close(session.session_id)
        session.connect()
        await anyio.wait_all_tasks_blocked()
    assert not record.exists()


async def test_an_answer_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with session_in(tmp_path, servers=[server()]) as session:
        await ran(session, "test.add_one(n=1)")
        monkeypatch.setattr("engine.session.tools.mcp_client.ANSWER_BYTES", 10)
        assert "; at most 10 are accepted" in await failed(session, "test.add_one(n=1)")
        monkeypatch.setattr("engine.session.tools.mcp_client.MOST_BLOCKS", 0)
        assert "the answer has 1 parts; at most 0 are accepted" in await failed(session, "test.add_one(n=1)")


async def test_invalid_messages_are_dropped_and_endless_lines_disconnect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await anyio.to_thread.run_sync(import_module, "engine.session.tools.mcp_client")
    monkeypatch.setattr("engine.session.tools.mcp_client.LONGEST_LINE", 1 << 20)
    async with session_in(tmp_path, servers=[server("noisy"), server("endless", name="endless")]) as session:
        assert (await ran(session, "test.add_one(n=1).text")).value == "'2'"
        assert "is not connected: the server sent a line of more than 1 MiB" in await failed(session, "endless.x()")


async def test_a_flood_holds_nobody_up(tmp_path: Path) -> None:
    async with session_in(tmp_path, servers=[server("flood", name="flood"), server()]) as session:
        with anyio.fail_after(20):
            assert (await ran(session, "test.add_one(n=1).text")).value == "'2'"
            assert (await ran(session, "1 + 1")).value == "2"
