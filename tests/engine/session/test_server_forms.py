"""What an MCP server asks the user during a call: checked forms, checked answers, and an end with the call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.mcpserver import Context, MCPServer

from engine import Form, FormAnswer, HttpServer, Session
from engine.core.clock import SystemClock
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.forms import Field
from engine.log.store.memory import MemoryStore
from engine.session import servers as module
from engine.session.tools.mcp_client import MOST_FORMS, TOO_MANY_FORMS
from tests.engine.session import test_http_servers
from tests.engine.session.test_servers import ran, requests, server
from tests.support.forms import FixedForms, accepted
from tests.support.sessions import events_of, session_in

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SECONDS = 20.0
SCHEMA = {
    "type": "object",
    "properties": {"seats": {"type": "integer", "title": "Seats", "minimum": 1}, "name": {"type": "string"}},
    "required": ["seats"],
}
FORM: dict[str, Any] = {"mode": "form", "message": "How many?", "requestedSchema": SCHEMA}


async def booked(session: Session, form: dict[str, Any] = FORM, times: int = 1) -> list[Any]:
    """What the server got for its questions."""
    finished = await ran(session, f"answers = test.book(form={form!r}, times={times}).text\nprint(answers)")
    assert finished.exception is None, finished.exception
    return json.loads(finished.stdout.text)


async def test_server_gets_the_answer_of_the_user_who_learns_who_asks(tmp_path: Path) -> None:
    record, store = tmp_path / "record", MemoryStore(SystemClock())
    user = FixedForms([accepted(seats=2.0, name="me"), FormAnswer(outcome="declined"), FormAnswer(outcome="cancelled")])
    async with session_in(tmp_path, store, servers=[server("asking", record=record)]) as session:
        session.attach(None, None, user)
        assert await booked(session) == [{"action": "accept", "content": {"seats": 2, "name": "me"}}]
        assert await booked(session) == [{"action": "decline"}]
        assert await booked(session) == [{"action": "cancel"}]
        (first, *_) = user.forms
        assert (first.server, first.message) == ("test", "How many?")
        assert first.fields == (
            Field(name="seats", type="integer", title="Seats", is_required=True, least=1),
            Field(name="name"),
        )
        shown = [event for event in events_of(session, ToolCall) if event.tool == "ask"]
        assert [event.arguments["question"] for event in shown] == [first.text] * 3
        texts = {event.tool_call_id: event.text for event in events_of(session, ToolResult)}
        assert texts[shown[0].tool_call_id] == "seats: 2.0\nname: me"
        (capabilities,) = [each["params"]["capabilities"] for each in requests(record, "initialize")]
        assert "elicitation" in capabilities
        assert "sampling" not in capabilities
    async with session_in(tmp_path, store, load=session.session_id, servers=[server("asking")]) as again:
        again.attach(None, None, user)
        assert (await ran(again, "answers")).value == repr('[{"action": "cancel"}]')
    assert len(user.forms) == 3


@pytest.mark.parametrize(
    "form",
    [
        {**FORM, "requestedSchema": {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}},
        {**FORM, "requestedSchema": {"type": "object", "properties": {"a": {"type": "array"}}}},
        {**FORM, "message": "x" * 100_000},
        {"mode": "form"},
    ],
)
async def test_form_that_is_not_flat_is_an_error_for_the_server(tmp_path: Path, form: dict[str, Any]) -> None:
    user = FixedForms([])
    async with session_in(tmp_path, servers=[server("asking")]) as session:
        session.attach(None, None, user)
        (answer,) = await booked(session, form)
        assert answer["code"] == -32602
        assert user.forms == []


async def test_answer_that_does_not_fit_never_reaches_the_server(tmp_path: Path) -> None:
    unfit = [accepted(seats=0), accepted(seats="2"), accepted(name="me"), accepted(seats=1, other="x")]
    async with session_in(tmp_path, servers=[server("asking")]) as session:
        session.attach(None, None, FixedForms(unfit))
        assert await booked(session, times=4) == [{"action": "decline"}] * 4


async def test_page_to_open_is_a_form_without_fields(tmp_path: Path) -> None:
    url = {"mode": "url", "message": "Sign in", "url": "https://example.org/in", "elicitationId": "e1"}
    user = FixedForms([FormAnswer(outcome="accepted")])
    async with session_in(tmp_path, servers=[server("asking")]) as session:
        session.attach(None, None, user)
        assert await booked(session, url) == [{"action": "accept"}]
        assert user.forms[0].fields == ()
        assert user.forms[0].message.endswith("https://example.org/in")


async def test_server_can_ask_a_limited_number_of_times(tmp_path: Path) -> None:
    user = FixedForms([FormAnswer(outcome="declined")] * (MOST_FORMS + 1))
    async with session_in(tmp_path, servers=[server("asking")]) as session:
        session.attach(None, None, user)
        answers = await booked(session, times=MOST_FORMS + 3)
        assert len([each for each in answers if each.get("message") == TOO_MANY_FORMS]) == 3
        assert len(user.forms) == MOST_FORMS


class Slow:
    """A user who answers when the test says so; notes how many forms are open at once."""

    def __init__(self) -> None:
        self.open = self.most = 0
        self.asked, self.go_on = anyio.Event(), anyio.Event()

    async def fill(self, form: Form) -> FormAnswer:
        self.open += 1
        self.most = max(self.most, self.open)
        self.asked.set()
        try:
            await self.go_on.wait()
        finally:
            self.open -= 1
        return accepted(seats=1)


async def test_waiting_for_the_user_does_not_count_as_the_servers_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CALL_SECONDS", 0.5)
    user = Slow()
    async with session_in(tmp_path, servers=[server("asking")]) as session:
        session.attach(None, None, user)
        await ran(session, "test.add_one(n=1)")
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:

                async def answer_later() -> None:
                    await user.asked.wait()
                    await anyio.sleep(0.8)
                    user.go_on.set()

                tasks.start_soon(answer_later)
                assert await booked(session, times=3) == [{"action": "accept", "content": {"seats": 1}}] * 3
        assert user.most == 1


async def test_cancel_ends_the_forms_of_the_call(tmp_path: Path) -> None:
    user = Slow()
    async with session_in(tmp_path, servers=[server("asking")]) as session:
        session.attach(None, None, user)
        ticket = session.accept(f"test.book(form={FORM!r}, times=2)")
        with anyio.fail_after(SECONDS):
            await user.asked.wait()
            session.cancel()
            assert (await ticket.end()).cause == "cancelled"
        assert user.open == 0
        ended = {event.tool_call_id for event in events_of(session, ToolResult)}
        assert {event.tool_call_id for event in events_of(session, ToolCall) if event.parent_id} <= ended
        assert (await ran(session, "test.add_one(n=1).text")).value == "'2'"


def asking_in_its_result() -> MCPServer:
    """A server of protocol 2026-07-28, whose question is the result of a first call."""
    made = MCPServer("asking")

    @made.tool()
    async def seats(ctx: Context) -> str | types.InputRequiredResult:
        if ctx.input_responses is None:
            form = types.ElicitRequestFormParams(message="How many?", requested_schema=SCHEMA)
            return types.InputRequiredResult(input_requests={"n": types.ElicitRequest(params=form)})
        (answer,) = ctx.input_responses.values()
        return json.dumps(answer.model_dump(exclude_none=True) if isinstance(answer, types.ElicitResult) else None)

    return made


async def test_question_in_a_result_is_asked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_http_servers, "offering", asking_in_its_result)
    user = FixedForms([accepted(seats=2)])
    async with (
        test_http_servers.serving("http") as site,
        session_in(tmp_path, servers=[HttpServer(name="web", url=site.url)]) as session,
    ):
        session.attach(None, None, user)
        finished = await ran(session, "print(web.seats().text)")
        assert finished.exception is None, finished.exception
        assert json.loads(finished.stdout.text)["content"] == {"seats": 2}
        assert user.forms[0].server == "web"
