"""Responses contain no secret, whichever way a handler sends them; lists have one page."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from engine.log.redaction import Redactor
from mcp_tools.middleware import NO_SUCH_PAGE, Redaction
from tests.support.mcp_clients import ERAS, Era, served

pytestmark = pytest.mark.anyio


KEY = "s3cret-value"


REDACTION = Redaction(lambda: Redactor([KEY]))


class Sent:
    """The channels to a client."""

    def __init__(self) -> None:
        self.messages: list[object] = []

    async def notify(self, method: str, params: object) -> None:
        self.messages.append((method, params))

    async def progress(self, *told: object) -> None:
        self.messages.append(told)


def context(sent: Sent, method: str = "tools/call") -> ServerRequestContext[Any, Any]:
    channel: Any = sent
    connection: Any = SimpleNamespace(outbound=sent, protocol_version="2025-11-25")
    return ServerRequestContext(
        session=ServerSession(channel, connection), lifespan_context=None, protocol_version="2025-11-25", method=method
    )


async def talks(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    message = types.LoggingMessageNotificationParams(level="info", data=KEY, logger="rewindow")
    for related in (None, 1):
        await ctx.session.send_notification(types.LoggingMessageNotification(params=message), related)
    await ctx.session.report_progress(1, 2, f"statement {KEY}")
    await ctx.session.send_progress_notification("token", 1, 2, KEY)
    await ctx.session.send_resource_updated(f"view://{KEY}")
    return {"contents": [{"uri": f"view://{KEY}", "name": KEY, "text": KEY}], "_meta": {"x": {"name": KEY}}}


async def test_results_notifications_and_progress_are_redacted() -> None:
    sent = Sent()
    result = await REDACTION(context(sent), talks)
    assert KEY not in str((result, sent.messages))
    assert str((result, sent.messages)).count("***") == 9
    assert ("notifications/resources/updated", {"uri": "view://***"}) in sent.messages


async def test_errors_are_redacted() -> None:
    async def fails(_ctx: object) -> dict[str, Any]:
        raise MCPError(types.INVALID_PARAMS, f"no {KEY}", {"uri": f"view://{KEY}"})

    with pytest.raises(MCPError) as caught:
        await REDACTION(context(Sent()), fails)
    assert (caught.value.message, caught.value.data) == ("no ***", {"uri": "view://***"})


async def test_static_results_are_not_redacted() -> None:
    async def lists(_ctx: object) -> dict[str, Any]:
        return {"tools": [{"name": KEY}]}

    assert await REDACTION(context(Sent(), "tools/list"), lists) == {"tools": [{"name": KEY}]}


@pytest.mark.parametrize("era", ERAS)
async def test_list_cursors_are_refused(tmp_path: Path, era: Era) -> None:
    async with served(tmp_path, era=era) as caller:
        client = caller.client
        for listing in (client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts):
            with pytest.raises(MCPError, match=NO_SUCH_PAGE):
                await listing(cursor="1")
            assert await listing()
