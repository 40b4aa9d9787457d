"""What a client is sent holds no secret, by whichever way a handler sends it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from engine import Redactor
from mcp_tools.guard import Redaction

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


async def test_results_notifications_and_progress_hold_no_secret() -> None:
    sent = Sent()
    result = await REDACTION(context(sent), talks)
    assert KEY not in str((result, sent.messages))
    assert str((result, sent.messages)).count("***") == 9
    assert ("notifications/resources/updated", {"uri": "view://***"}) in sent.messages


async def test_errors_hold_no_secret() -> None:
    async def fails(_ctx: object) -> dict[str, Any]:
        raise MCPError(types.INVALID_PARAMS, f"no {KEY}", {"uri": f"view://{KEY}"})

    with pytest.raises(MCPError) as caught:
        await REDACTION(context(Sent()), fails)
    assert (caught.value.message, caught.value.data) == ("no ***", {"uri": "view://***"})


async def test_a_table_of_ours_stays_where_a_word_in_it_is_a_secret() -> None:
    async def lists(_ctx: object) -> dict[str, Any]:
        return {"tools": [{"name": KEY}]}

    assert await REDACTION(context(Sent(), "tools/list"), lists) == {"tools": [{"name": KEY}]}
