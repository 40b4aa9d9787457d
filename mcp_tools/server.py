"""The product's `Server`: what clients may list and call, each request taken to the session that it belongs to.

Built on the SDK's public low-level interface, for both eras and every transport. Owns which session a request means and
how errors reach a client. Tests register the fixtures of the official conformance suite on what `make_server` gives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from engine import __version__
from engine.errors import EngineError
from mcp_tools.arguments import ArgumentError, checked
from mcp_tools.bench import Bench, CallError
from mcp_tools.guard import guard
from mcp_tools.replies import Reply
from mcp_tools.roots import Roots, chosen
from mcp_tools.sessions import BenchPool
from mcp_tools.tools import RUNNING, TOOLS
from mcp_tools.tools.row import ToolRow

logger = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
INSTRUCTIONS: Final = """\
Views are windows on files that stay open under a name, each within a token budget. Open what you work on with `view`,
put several files under one budget with `group`, and call `tick` after files may have changed: it tells what changed in
those that follow their file, as diffs, which is cheaper than viewing again. `lod` chooses how much detail is shown:
0 text, 1 symbols, 2 summary, 3 diff. The first line of a reply says what is shown and what it costs."""
_RUNNING: Final = " `run` runs Python where each view is a variable."
_ROOTS_SECONDS: Final = 5.0


class Requests:
    """The handlers of one server's requests.

    Args:
        pool: where sessions come from.
        limit: the roots of the command line, None without.
        session: the name of the session on stdio; None for a new one.
        runs: whether clients may run Python.
        on_answered: called when a client has had an answer.
    """

    def __init__(
        self,
        pool: BenchPool,
        *,
        limit: Roots | None,
        session: str | None,
        runs: bool,
        on_answered: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._limit = limit
        self._session = session
        self._on_answered = on_answered
        rows = (*TOOLS, *RUNNING) if runs else TOOLS
        self._rows = {row.name: row for row in rows}
        self._listed = [_tool(row) for row in rows]

    async def note_answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: the answer comes first, then whatever it is that takes time."""
        result = await call_next(ctx)
        self._on_answered()
        return result

    async def list_tools(self, _ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """All tools there are."""
        return types.ListToolsResult(tools=self._listed)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """One call. What the client can mend is a result that says so; an unknown tool is an error of the protocol."""
        row = self._rows.get(params.name)
        if row is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}; there are {', '.join(self._rows)}")
        try:
            arguments = checked(row.name, row.schema, params.arguments or {})
            reply = await row.call(await self._bench(ctx), arguments)
        except (ArgumentError, CallError) as error:
            reply = Reply(text=str(error), is_error=True)
        except EngineError as error:
            reply = Reply(text=f"{str(error).rstrip('.')}.", is_error=True)
        return _result(reply)

    async def _bench(self, ctx: Context) -> Bench:
        name = self._session
        return await self._pool.bench(name or "", name, lambda: self._roots(ctx), _client(ctx))

    async def _roots(self, ctx: Context) -> Roots:
        return chosen(self._limit, await _named_roots(ctx))


def make_server(requests: Requests, *, runs: bool = False) -> Server[Any]:
    """The server, which any transport can run."""
    server = Server[Any](
        "rewindow",
        version=__version__,
        title="Rewindow",
        instructions=INSTRUCTIONS + (_RUNNING if runs else ""),
        on_list_tools=requests.list_tools,
        on_call_tool=requests.call_tool,
    )
    server.middleware += [guard, requests.note_answer]
    return server


def _tool(row: ToolRow) -> types.Tool:
    return types.Tool(
        name=row.name,
        title=row.title,
        description=row.description,
        input_schema=dict(row.schema),
        annotations=types.ToolAnnotations(
            read_only_hint=row.read_only, destructive_hint=row.destructive, open_world_hint=row.destructive
        ),
    )


def _result(reply: Reply) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        is_error=reply.is_error,
        _meta=reply.meta or None,
    )


def _client(ctx: Context) -> str:
    """The client, as it calls itself."""
    params = ctx.session.client_params
    info = None if params is None else params.client_info
    return "" if info is None else f"{info.name} {info.version}".strip()


async def _named_roots(ctx: Context) -> Sequence[str] | None:
    """The roots of a client of the handshake era that has some; None for any other."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not ctx.session.can_send_request:
        return None
    try:
        answer = await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult, _ROOTS_SECONDS)
    except (MCPError, ValidationError) as error:
        logger.warning("the client does not tell its roots: %s", error)
        return None
    return [str(root.uri) for root in answer.roots]
