"""Every list is one page here, so that no cursor is ours. Middleware of the server, for both eras."""

from __future__ import annotations

from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

_LISTS: Final = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})


async def one_page(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuses a cursor, as the specification would have a server do that never gave it."""
    if ctx.method in _LISTS and (ctx.params or {}).get("cursor") is not None:
        raise MCPError(INVALID_PARAMS, "There is no such page: everything is on the first one")
    return await call_next(ctx)
