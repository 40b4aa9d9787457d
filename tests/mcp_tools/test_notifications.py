"""Log messages and notifications about changed resources, in both eras."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    LOG_LEVEL_META_KEY,
    LoggingLevel,
    LoggingMessageNotification,
    ResourceUpdatedNotification,
    TextResourceContents,
)

from mcp_tools.notifications import REBUILT
from tests.support.mcp_clients import Caller, served, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]


KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


class Received:
    """The log messages that a client received."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, object]] = []

    async def take(self, message: object) -> None:
        if isinstance(message, LoggingMessageNotification):
            assert message.params.logger == "rewindow"
            self.messages.append((message.params.level, message.params.data))


async def after_a_kill(
    caller: Caller, received: Received, level: LoggingLevel | None = None
) -> list[tuple[str, object]]:
    """The messages of the first call after the worker was killed, which requests a log level."""
    await caller.result("run", code=KILL)
    received.messages.clear()
    meta = None if level is None else {LOG_LEVEL_META_KEY: level}
    await caller.client.call_tool("view", {"name": "a"}, meta=meta)
    return received.messages


async def begin(caller: Caller, root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    (root / "b.txt").write_text("one\n")
    await caller.text("view", path="a.txt")
    await caller.text("run", code="lines = open('b.txt').read()")


@pytest.mark.slow
async def test_log_level_of_the_handshake_era(tmp_path: Path) -> None:
    received = Received()
    async with served(tmp_path, runs=True, era="legacy", hear=received.take) as caller:
        await begin(caller, tmp_path)
        assert await after_a_kill(caller, received) == [("info", REBUILT.format(executions=2))]
        await caller.client.set_logging_level("warning")
        assert await after_a_kill(caller, received) == []
        (tmp_path / "b.txt").write_text("two\n")
        ((level, text),) = await after_a_kill(caller, received)
        assert level == "warning"
        assert "statement 2" in str(text)
        await caller.client.set_logging_level("error")
        assert await after_a_kill(caller, received) == []


async def test_log_level_of_a_request(tmp_path: Path) -> None:
    received = Received()
    async with served(tmp_path, runs=True, hear=received.take) as caller:
        await begin(caller, tmp_path)
        assert await after_a_kill(caller, received) == []
        assert await after_a_kill(caller, received, "debug") == [("info", REBUILT.format(executions=3))]
        assert await after_a_kill(caller, received, "warning") == []


async def read(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.uri == uri
    return contents.text


async def test_subscriber_gets_its_own_uri_spelling(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name="my-view", follow=True)
        wanted = ["view://my-view", "view://my_view", "view://other"]
        async with caller.client.listen(resource_subscriptions=wanted) as events:
            (project / "a.txt").write_text("three\n")
            heard = aiter(events)
            told = {str(getattr(await anext(heard), "uri", "")) for _ in range(2)}
            assert told == {"view://my-view", "view://my_view"}


async def test_subscription_reports_change_without_tick(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name="a", follow=True)
        async with caller.client.listen(resource_subscriptions=["view://a"]) as events:
            (project / "a.txt").write_text("three\n")
            event = await anext(aiter(events))
            assert event == ResourceUpdated(uri="view://a")
            assert "one" in await read(caller.client, "view://a")
            assert "+three" in await caller.text("tick")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_handshake_era_subscription_until_unsubscribe(project: Path) -> None:
    heard: list[str] = []
    changed = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))
            changed.set()

    async with served(project, era="legacy", hear=hear) as caller:
        await caller.text("view", path="a.txt", name="a", follow=True)
        await caller.client.subscribe_resource("view://a")
        (project / "a.txt").write_text("three\n")
        await changed.wait()
        assert heard == ["view://a"]
        await caller.client.unsubscribe_resource("view://a")
        assert text_of(await caller.result("tick")).startswith("a: ")
        await anyio.sleep(1.2)
        assert heard == ["view://a"]
