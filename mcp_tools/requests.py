"""The handlers of requests: what clients may list and call, each request taken to the session that it belongs to.

For both eras and every transport. Owns which session a request means and how errors reach a client. Called by `server`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from engine.errors import EngineError
from mcp_tools import resources
from mcp_tools.arguments import ArgumentError, checked
from mcp_tools.errors import CallError
from mcp_tools.feed import Feed
from mcp_tools.prompts import PROMPTS, orient, review
from mcp_tools.replies import Reply, output_schema
from mcp_tools.roots import Roots, RootsError, chosen
from mcp_tools.sessions import BenchPool
from mcp_tools.tools import RUNNING, TOOLS
from mcp_tools.tools.row import ToolRow

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench

logger = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
DEFAULT_SESSION: Final = "default"
"""The name of the session over HTTP, where the path names none."""
_ROOTS_SECONDS: Final = 5.0
_TEXT: Final = "text/plain"
_COMPLETIONS: Final = 100
_ALWAYS_LOAD: Final = {"anthropic/alwaysLoad": True}
"""Has Claude Code show its models the tools as they are. Otherwise it shows names, and schemas after a search."""


class Requests:
    """The handlers of one server's requests.

    Args:
        pool: where sessions come from.
        limit: the roots of the command line, None without.
        session: the name of the session on stdio; None for a new one. Over HTTP the path says it.
        runs: whether clients may run Python.
        structured: whether replies have `structuredContent` too.
        on_answered: called when a client has had an answer.
        feed: tells subscribers.
    """

    def __init__(
        self,
        pool: BenchPool,
        *,
        limit: Roots | None,
        session: str | None,
        runs: bool,
        structured: bool,
        on_answered: Callable[[], None],
        feed: Feed,
    ) -> None:
        self._pool = pool
        self._feed = feed
        self._limit = limit
        self._session = session
        self._on_answered = on_answered
        rows = (*TOOLS, *RUNNING) if runs else TOOLS
        self._rows = {row.name: row for row in rows}
        self._structured = structured
        self._listed = [_tool(row, structured) for row in rows]

    def schema_of(self, tool: str) -> Mapping[str, Any] | None:
        """The schema of a tool's arguments; None where there is no such tool."""
        row = self._rows.get(tool)
        return None if row is None else row.schema

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
            reply = await self._called(ctx, row, arguments)
        except (ArgumentError, CallError) as error:
            reply = Reply(text=str(error), is_error=True)
        except EngineError as error:
            reply = Reply(text=f"{str(error).rstrip('.')}.", is_error=True)
        return _result(reply, self._structured)

    async def _called(self, ctx: Context, row: ToolRow, arguments: Mapping[str, Any]) -> Reply:
        bench = await self._bench(ctx)
        before = bench.handles.names()
        try:
            return await row.call(bench, arguments)
        finally:
            if bench.handles.names() != before:
                await self._feed.listed_anew(self._place(ctx)[0], ctx.session)

    # --- resources ----------------------------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The handles there are, and the timeline."""
        entries = resources.entries(await self._bench_there_is(ctx))
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=entry.uri, name=entry.name, description=entry.words, mime_type=_TEXT)
                for entry in entries
            ]
        )

    async def list_templates(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The kinds of URI."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=template, name=template.partition(":")[0], description=words, mime_type=_TEXT
                )
                for template, words in resources.TEMPLATES.items()
            ]
        )

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """The text of one, as it is; nothing is ticked for it."""
        try:
            text = await resources.read(await self._bench_there_is(ctx), params.uri)
        except resources.NoResourceError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": params.uri}) from None
        except EngineError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type=_TEXT, text=text)]
        )

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """For clients of the handshake era."""
        self._feed.subscribe(self._place(ctx)[0], params.uri, ctx.session)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Likewise."""
        self._feed.unsubscribe(self._place(ctx)[0], params.uri, ctx.session)
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """For clients of the newer era."""
        return await self._feed.listen(self._place(ctx)[0], ctx, params)

    # --- prompts, completions -----------------------------------------------------------------------------------------

    async def list_prompts(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """All prompts there are."""
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=row.name,
                    title=row.title,
                    description=row.words,
                    arguments=[
                        types.PromptArgument(name=name, description=words, required=False)
                        for name, words in row.arguments.items()
                    ],
                )
                for row in PROMPTS.values()
            ]
        )

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """One prompt, with its arguments in it."""
        row, given = PROMPTS.get(params.name), params.arguments or {}
        if row is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}; there are {', '.join(PROMPTS)}")
        try:
            if row.name == "orient":
                text = orient(given.get("path", ""))
            else:
                text = await review(await self._bench_there_is(ctx), given.get("since", ""))
        except ArgumentError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except EngineError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=row.words, messages=[message])

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """What may be meant by the beginning of an argument; nothing where that is none of ours."""
        from mcp_tools.completions import COMPLETED, completions  # for the first answer, as above

        reference = params.ref
        of = reference.uri if isinstance(reference, types.ResourceTemplateReference) else reference.name
        kind, found = COMPLETED.get((of, params.argument.name)), list[str]()
        if kind is not None:
            bench = await self._bench_there_is(ctx)
            found = await completions(kind, params.argument.value, bench, await self._directories(ctx, bench))
        return types.CompleteResult(
            completion=types.Completion(
                values=found[:_COMPLETIONS], total=len(found), has_more=len(found) > _COMPLETIONS
            )
        )

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _place(self, ctx: Context) -> tuple[str, str | None]:
        """What shares the session that a request means, and its name; no name for a new one."""
        request: object = ctx.request
        if isinstance(request, HTTPConnection):
            name = request.path_params.get("name", DEFAULT_SESSION)
            return name, name
        return self._session or "", self._session

    async def _bench(self, ctx: Context) -> Bench:
        key, name = self._place(ctx)
        return await self._pool.bench(key, name, lambda: self._roots(ctx), _client(ctx))

    async def _bench_there_is(self, ctx: Context) -> Bench | None:
        """The session, if there is one already: reading makes none."""
        key, name = self._place(ctx)
        if name is None:
            return self._pool.find(key)
        try:
            return await self._bench(ctx)
        except CallError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None

    async def _directories(self, ctx: Context, bench: Bench | None) -> Sequence[str]:
        """Those of the session, or those that it would have."""
        if bench is not None:
            return (bench.session.cwd, *bench.session.directories)
        try:
            return (await self._roots(ctx)).directories
        except RootsError:
            return ()

    async def _roots(self, ctx: Context) -> Roots:
        return chosen(self._limit, await _named_roots(ctx))


def _tool(row: ToolRow, structured: bool) -> types.Tool:
    return types.Tool(
        name=row.name,
        title=row.title,
        description=row.description,
        input_schema=dict(row.schema),
        output_schema=output_schema(row.facts) if structured else None,
        annotations=types.ToolAnnotations(
            read_only_hint=row.read_only, destructive_hint=row.destructive, open_world_hint=row.destructive
        ),
        _meta=_ALWAYS_LOAD,
    )


def _result(reply: Reply, structured: bool) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        structured_content=reply.structured if structured else None,
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
        # As part of this request, because over HTTP there may be no other stream to the client.
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(
            types.ListRootsRequest(), types.ListRootsResult, _ROOTS_SECONDS, related
        )
    except (MCPError, ValidationError) as error:
        logger.warning("the client does not tell its roots: %s", error)
        return None
    return [str(root.uri) for root in answer.roots]
