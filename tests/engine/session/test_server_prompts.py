"""Prompts of MCP servers are slash commands, also when a server comes late, and loads need no server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine import CommandRow, CommandsListed, StdioServer, Subscription
from engine.context.model import Prompt
from engine.context.tail.prompt import message_text
from engine.core.clock import SystemClock
from engine.log.events.conversation import UserMessage
from engine.log.store.memory import MemoryStore
from engine.session import servers
from engine.session.commands.custom import NEEDS_MODEL
from tests.support import mcp_server
from tests.support.models import AnsweringModel, says
from tests.support.sessions import answer_to, events_of, in_process, session_in

pytestmark = pytest.mark.anyio
SECONDS = 20.0
GREET = CommandRow("test:greet_all", "who [how]", "Greets somebody.")


def server(*words: str) -> StdioServer:
    return StdioServer(name="test", command=sys.executable, args=("-S", mcp_server.__file__, *words), env={})


def session_with(tmp_path: Path, *words: str, **options: Any) -> Any:
    return session_in(tmp_path, servers=[server(*words)], environments=in_process, **options)


def last_text(prompt: Prompt) -> str:
    return message_text(next(each for each in reversed(prompt.messages) if isinstance(each, UserMessage)))


async def names_with(published: Subscription, name: str) -> list[str]:
    """The commands that are listed, once that one is there."""
    with anyio.fail_after(SECONDS):
        async for batch in published.batches(pace=0):
            for item in batch:
                if isinstance(item, CommandsListed) and name in {row.name for row in item.rows}:
                    return [row.name for row in item.rows]
    raise AssertionError


async def test_a_prompt_is_a_command_with_arguments(tmp_path: Path) -> None:
    store, model = MemoryStore(SystemClock()), AnsweringModel(says("Done."))
    async with session_with(tmp_path, "prompts", model=model, store=store) as session:
        end = await session.accept("/test:greet_all Ann 'very loudly'").end()  # before the server is connected
        assert end.cause == "end_turn"
        assert GREET in session.custom_commands
        text = last_text(model.prompts[0])
        assert text.startswith("Greet Ann very loudly.\n[note.txt](mcp://test/file:///etc/note.txt)")
        assert "not the file" in text
        (cell,) = session.cells
        assert cell.statement.source == "note_txt = view(text='not the file\\n', title='note.txt')"
    async with session_in(tmp_path, store, load=session.session_id, model=model, environments=in_process) as session:
        (message,) = [event for event in events_of(session, UserMessage) if not event.aside]
        assert message.text == "/test:greet_all Ann 'very loudly'"
        await session.accept("go").end()
    assert message_text(model.prompts[1].messages[0]) == text


async def test_wrong_calls_are_refused_with_the_reason(tmp_path: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_with(tmp_path, "prompts", model=model) as session:
        assert "`/test:greet_all who [how]`: the prompt needs who" in await answer_to(session, "/test:greet_all")
        assert "has no prompt 'other'" in await answer_to(session, "/test:other")
        assert "no further argument" in await answer_to(session, "/test:greet_all who=a how=b c")
    assert not model.prompts


async def test_a_changed_list_changes_the_commands(tmp_path: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_with(tmp_path, "prompts", model=model) as session:
        published = session.subscribe()
        session.connect()
        names = await names_with(published, "test:grow")
        assert names == ["test:greet_all", "test:grow", "test:slow"]
        await session.accept("/test:grow").end()
        assert await names_with(published, "test:late") == [*names, "test:late"]


async def test_a_server_that_fails_to_list_prompts_keeps_its_tools(tmp_path: Path) -> None:
    async with session_with(tmp_path, "prompts", "unlisted", model=AnsweringModel(says("Done."))) as session:
        assert "has no prompt" in await answer_to(session, "/test:grow")


async def test_a_lost_server_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "BACKOFF", ())
    async with session_with(tmp_path, "dead", model=AnsweringModel(says("Done."))) as session:
        assert "MCP server 'test' is not connected" in await answer_to(session, "/test:grow")


async def test_waiting_for_a_prompt_can_be_cancelled(tmp_path: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_with(tmp_path, "prompts", model=model) as session:
        published = session.subscribe()
        ticket = session.accept("/test:slow")
        await names_with(published, "test:asked")
        session.cancel()
        with anyio.fail_after(SECONDS):
            assert (await ticket.end()).cause == "cancelled"
        assert (await session.accept("go").end()).cause == "end_turn"
    assert [last_text(prompt) for prompt in model.prompts] == ["go"]


async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "CALL_SECONDS", 0.2)
    async with session_with(tmp_path, "prompts", model=AnsweringModel(says("Done."))) as session:
        assert "did not answer within 0.2 s" in await answer_to(session, "/test:slow")


async def test_a_session_that_runs_what_is_typed_refuses_prompts(tmp_path: Path) -> None:
    async with session_with(tmp_path, "prompts") as session:
        assert await answer_to(session, "/test:greet_all Ann") == NEEDS_MODEL.format(name="test:greet_all")
