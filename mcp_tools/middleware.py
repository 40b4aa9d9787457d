"""Middleware that every response passes: redacts secrets, keeps text valid, contains failures, refuses cursors.

A lone surrogate (from a file name or content that is not UTF-8) would crash the process when it is written. So would
`sys.exit()` in a handler. Other exceptions would reach clients of the handshake era with their text. Worker output and
the log are already redacted; the rest of a message, such as file names and the client's own arguments, is redacted
here. Handlers reach the client through their result, their error and `ctx.session`, and `Redaction` covers all three.

Installed by `server`, for both eras and every transport. `tasks` uses `contain_failures` for calls without a request.
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
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, RequestId, ServerNotification
from pydantic import ValidationError

from engine.core.text import cut_line

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine.log.redaction import Redactor

logger = logging.getLogger(__name__)
UNREDACTED_KEYS: Final = frozenset((
    # vocabulary of JSON-RPC and of MCP
    "jsonrpc", "id", "code", "method", "type", "role", "status", "level", "mimeType", "protocolVersion", "resultType",
    # identifiers that only we or the client itself choose
    "taskId", "nextCursor", "requestState", "progressToken", SUBSCRIPTION_ID_META_KEY,
))  # fmt: skip
"""Keys whose values are sent unchanged at any depth. Handles and their URIs are not among them."""
STATIC_METHODS: Final = frozenset((
    "initialize", "server/discover", "ping", "tools/list", "prompts/list", "resources/templates/list",
))  # fmt: skip
"""Methods whose results are our own constants, sent unchanged: a secret may equal a word such as a tool's name."""
_LISTS: Final = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
_MESSAGE_CHARS: Final = 1000
INTERNAL_FAILURE: Final = "the server failed to handle this request; see its stderr"
NO_SUCH_PAGE: Final = "No such page; the first page has everything"


class Redaction:
    """The outermost middleware: redacts everything that a client receives."""

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self._redactor = redactor

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(replace(ctx, session=_RedactedSession(ctx.session, self._redact)))
        except MCPError as error:
            raise MCPError(error.code, self._redact(error.message), self._redact(error.data)) from None
        return self._redact(result) if isinstance(result, dict) and ctx.method not in STATIC_METHODS else result

    def _redact(self, value: Any) -> Any:
        redactor = self._redactor()
        if not redactor:
            return value
        from engine.log.redaction import redact_json  # after the first response

        return redact_json(redactor, value, UNREDACTED_KEYS)


class _RedactedSession(ServerSession):
    """The session of a request or subscription, which redacts the messages that it sends."""

    def __init__(self, session: ServerSession, redact: Callable[[Any], Any]) -> None:
        self.__dict__.update(vars(session))
        self._redact = redact

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        clean = self._redact(notification.model_dump(by_alias=True, mode="json", exclude_none=True))
        await super().send_notification(type(notification).model_validate(clean, by_name=False), related_request_id)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await super().report_progress(progress, total, self._redact(message))


async def contain_failures(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Turn unexpected exceptions into an internal error without their text, and make all text valid Unicode."""
    try:
        result = await call_next(ctx)
    except MCPError as error:
        message = valid_unicode(cut_line(error.message, _MESSAGE_CHARS))
        raise MCPError(error.code, message, valid_unicode(error.data)) from None
    except ValidationError:
        raise  # the SDK reports which parameters are invalid
    except (Exception, SystemExit) as error:
        logger.error("%s failed", ctx.method, exc_info=error)
        raise MCPError(INTERNAL_ERROR, INTERNAL_FAILURE) from None
    return valid_unicode(result) if isinstance(result, dict) else result


def valid_unicode(value: Any) -> Any:
    """Replace lone surrogates in a JSON value by U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {valid_unicode(key): valid_unicode(each) for key, each in members.items()}
    if isinstance(value, list):
        return [valid_unicode(each) for each in cast("list[Any]", value)]
    return value


async def refuse_cursors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuse cursors of lists: all our lists have one page, so no cursor is ours."""
    if ctx.method in _LISTS and (ctx.params or {}).get("cursor") is not None:
        raise MCPError(INVALID_PARAMS, NO_SUCH_PAGE)
    return await call_next(ctx)
