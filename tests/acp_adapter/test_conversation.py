"""Order between opening a session, its first update and its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from acp_adapter.conversation import Conversation
from acp_adapter.editor_files import Documents, EditorFiles
from acp_adapter.requests import Initialize, Prompt
from acp_adapter.versions import FIRST
from engine import Sessions
from engine.log.events.conversation import RunStop
from engine.log.redaction import NO_SECRETS
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
SECONDS = 20.0


class NotingPeer:
    """A peer that records updates and answers no request."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        assert method == "session/update"
        self.sent.append(params["update"])
        await anyio.lowlevel.checkpoint()

    async def request(
        self, method: str, params: Mapping[str, Any], read: Callable[[object], Any], deadline: float | None = None
    ) -> Any:
        raise AssertionError("nobody is asked")

    def close(self) -> None:
        raise AssertionError("nobody closes it")

    @property
    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for update in self.sent]


class Opening:
    """A session that was just opened, and the tasks that wait for it."""

    def __init__(self, sessions: Sessions, conversation: Conversation, peer: NotingPeer, tasks: TaskGroup) -> None:
        self._sessions = sessions
        self.conversation = conversation
        self.peer = peer
        self.tasks = tasks
        self.happened: list[str] = []

    def prompt(self, text: str) -> None:
        """Send a prompt, and record its end."""
        ticket = self.conversation.accept(Prompt("", (text,)))

        async def wait() -> None:
            end = await self.conversation.ended(ticket)
            self.happened.append(f"prompt {end.cause}")

        self.tasks.start_soon(wait)

    def close(self) -> None:
        """Close the session, and record the end."""

        async def release() -> None:
            await self._sessions.close(self.conversation.session.session_id)
            self.happened.append("released")

        async def wait() -> None:
            await self.conversation.close(release)
            self.happened.append("closed")

        self.tasks.start_soon(wait)


@asynccontextmanager
async def opening(tmp_path: Path) -> AsyncIterator[Opening]:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        peer = NotingPeer()
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                files = EditorFiles(
                    "", Documents(), peer, session.spelled, redactor=NO_SECRETS, reads=False, writes=False
                )
                yield Opening(sessions, Conversation(session, peer, files, FIRST, Initialize()), peer, tasks)


async def ended(conversation: Conversation) -> None:
    """Wait until a run has ended and nothing more happens, sent or not."""
    while not isinstance(conversation.session.events[-1], RunStop):
        await anyio.lowlevel.checkpoint()
    await conversation.session.durable(len(conversation.session.events) - 1)
    await anyio.wait_all_tasks_blocked()


async def test_nothing_is_sent_before_start(tmp_path: Path) -> None:
    async with opening(tmp_path) as opened:
        opened.prompt("/help")
        await ended(opened.conversation)
        assert (opened.peer.sent, opened.happened) == ([], [])
        await opened.conversation.start(opened.tasks)
        opened.close()
    assert opened.peer.kinds[0] == "available_commands_update"
    assert opened.peer.kinds[-1] == "session_info_update"
    assert opened.happened == ["prompt end_turn", "released", "closed"]


async def test_giving_up_the_start_answers_prompts(tmp_path: Path) -> None:
    async with opening(tmp_path) as opened:
        opened.prompt("/help")
        opened.close()
        await ended(opened.conversation)
        opened.conversation.give_up()
    assert opened.peer.sent == []
    assert [event.split()[0] for event in opened.happened] == ["prompt", "released", "closed"]


async def test_close_while_opening_waits_for_prompts(tmp_path: Path) -> None:
    async with opening(tmp_path) as opened:
        opened.prompt("while True: pass")
        opened.close()
        opened.close()
        await ended(opened.conversation)
        assert opened.happened == []
        assert not opened.conversation.is_open
        await opened.conversation.start(opened.tasks)
    assert opened.happened == ["prompt cancelled", "released", "closed", "closed"]
    assert opened.peer.kinds[-1] == "session_info_update"


async def test_start_after_close_sends_nothing(tmp_path: Path) -> None:
    async with opening(tmp_path) as opened:
        opened.close()
        await opened.conversation.closed()
        await opened.conversation.start(opened.tasks)
    assert opened.peer.sent == []
