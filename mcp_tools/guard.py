"""What every answer passes: it holds no secret and only text that UTF-8 can hold, and no handler ends the server.

A lone surrogate (a file name or a content that is no UTF-8) would end the whole process as it is written, and so would
`sys.exit()` inside a handler; what else a handler raises, the handshake era would be told word for word. Middleware of
the server, for both eras and every transport. What a worker sent is redacted before it comes here, and so is the log;
the rest of a message, such as names of files and what the client itself has sent, is redacted here. Handlers reach the
client by their result, their error and `ctx.session`, and all three pass `Redaction`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, RequestId, ServerNotification
from pydantic import ValidationError

from engine import cut_line

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Redactor

logger = logging.getLogger(__name__)
EXACT: Final = frozenset((
    # JSON-RPC and the protocol's own words
    "jsonrpc", "id", "code", "method", "type", "role", "status", "level", "mimeType", "protocolVersion", "resultType",
    # what somebody looks up, and nobody but us or the client itself has named
    "taskId", "nextCursor", "requestState", "progressToken", SUBSCRIPTION_ID_META_KEY,
))  # fmt: skip
"""Keys whose values are sent as they are, wherever they stand. Handles and their URIs may be called like a secret."""
OURS: Final = frozenset((
    "initialize", "server/discover", "ping", "tools/list", "prompts/list", "resources/templates/list",
))  # fmt: skip
"""Methods whose results are tables of ours, sent as they are: a secret may be a word of ours, such as a tool's name."""
_MESSAGE_CHARS: Final = 1000
_BROKEN: Final = "the server failed at this request; its stderr says more"


class Redaction:
    """Middleware, the outermost: takes secrets out of everything that a client is sent."""

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self._redactor = redactor

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(replace(ctx, session=_RedactedSession(ctx.session, self._redacted)))
        except MCPError as error:
            raise MCPError(error.code, self._redacted(error.message), self._redacted(error.data)) from None
        return self._redacted(result) if isinstance(result, dict) and ctx.method not in OURS else result

    def _redacted(self, value: Any) -> Any:
        redactor = self._redactor()
        if not redactor:
            return value
        from engine import redact_json  # the client has its first answer by now

        return redact_json(redactor, value, EXACT)


class _RedactedSession(ServerSession):
    """The session of a request, or of a subscription that it leaves, whose messages hold no secret."""

    def __init__(self, session: ServerSession, redacted: Callable[[Any], Any]) -> None:
        self.__dict__.update(vars(session))
        self._redacted = redacted

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        clean = self._redacted(notification.model_dump(by_alias=True, mode="json", exclude_none=True))
        await super().send_notification(type(notification).model_validate(clean, by_name=False), related_request_id)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await super().report_progress(progress, total, self._redacted(message))


async def guard(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """The rest of the chain, with what it gives made writable."""
    try:
        result = await call_next(ctx)
    except MCPError as error:
        raise MCPError(error.code, writable(cut_line(error.message, _MESSAGE_CHARS)), writable(error.data)) from None
    except ValidationError:
        raise  # the SDK says which parameters it was that are not as the protocol has them
    except (Exception, SystemExit) as error:
        logger.error("%s failed", ctx.method, exc_info=error)
        raise MCPError(INTERNAL_ERROR, _BROKEN) from None
    return writable(result) if isinstance(result, dict) else result


def writable(value: Any) -> Any:
    """The JSON value, with U+FFFD in place of what is no Unicode."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {writable(key): writable(each) for key, each in members.items()}
    if isinstance(value, list):
        return [writable(each) for each in cast("list[Any]", value)]
    return value
