"""Messages to whoever watches a host's log: as severe as the client wants them, in each era's own way."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_types import LOG_LEVEL_META_KEY, LoggingLevel, LoggingMessageNotification

from tests.support.mcp_clients import Caller, served

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
REBUILT = "the namespace was rebuilt in a new worker: {} of its statements ran again"


class Heard:
    """The messages that a client was sent."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, object]] = []

    async def take(self, message: object) -> None:
        if isinstance(message, LoggingMessageNotification):
            assert message.params.logger == "rewindow"
            self.messages.append((message.params.level, message.params.data))


async def after_a_kill(caller: Caller, heard: Heard, level: LoggingLevel | None = None) -> list[tuple[str, object]]:
    """What is heard during the first call after the worker was killed, which asks for messages of a level."""
    await caller.result("run", code=KILL)
    heard.messages.clear()
    meta = None if level is None else {LOG_LEVEL_META_KEY: level}
    await caller.client.call_tool("view", {"name": "a"}, meta=meta)
    return heard.messages


async def begin(caller: Caller, root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    (root / "b.txt").write_text("one\n")
    await caller.text("view", path="a.txt")
    await caller.text("run", code="lines = open('b.txt').read()")


@pytest.mark.slow
async def test_a_client_of_the_handshake_era_hears_what_its_level_lets_through(tmp_path: Path) -> None:
    heard = Heard()
    async with served(tmp_path, runs=True, era="legacy", hear=heard.take) as caller:
        await begin(caller, tmp_path)
        assert await after_a_kill(caller, heard) == [("info", REBUILT.format(2))]
        await caller.client.set_logging_level("warning")
        assert await after_a_kill(caller, heard) == []
        (tmp_path / "b.txt").write_text("two\n")
        ((level, text),) = await after_a_kill(caller, heard)
        assert level == "warning"
        assert "statement 2" in str(text)
        await caller.client.set_logging_level("error")
        assert await after_a_kill(caller, heard) == []


async def test_a_client_of_the_newer_era_hears_only_what_a_request_asks_for(tmp_path: Path) -> None:
    heard = Heard()
    async with served(tmp_path, runs=True, hear=heard.take) as caller:
        await begin(caller, tmp_path)
        assert await after_a_kill(caller, heard) == []
        assert await after_a_kill(caller, heard, "debug") == [("info", REBUILT.format(3))]
        assert await after_a_kill(caller, heard, "warning") == []
