"""The handlers of requests: what clients may list and call, each request taken to the session that it belongs to.

For both eras and every transport. Owns how errors reach a client. Called by `server`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from engine.core.errors import EngineError, SessionReadOnlyError
from mcp_tools import resources
from mcp_tools.arguments import ArgumentError, checked
from mcp_tools.errors import CallError
from mcp_tools.feed import Feed
from mcp_tools.logs import Logs
from mcp_tools.places import Places
from mcp_tools.prompts import PROMPTS, orient, review
from mcp_tools.replies import Reply, output_schema
from mcp_tools.tasks import TaskContext, require_declared
from mcp_tools.tools import RUNNING, TOOLS
from mcp_tools.tools.row import Report, ToolRow

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Progress, Redactor

Context = ServerRequestContext[Any, Any]
_TEXT: Final = "text/plain"
_COMPLETIONS: Final = 100
_NAMED_LIKE_A_KEY: Final = "`name` holds a secret, and names are stored and shown as they are; choose another."
_ALWAYS_LOAD: Final = {"anthropic/alwaysLoad": True}
"""Has Claude Code show its models the tools as they are. Otherwise it shows names, and schemas after a search."""


class Requests:
    """The handlers of one server's requests.

    Args:
        places: which session a request means.
        runs: whether clients may run Python.
        structured: whether replies have `structuredContent` too.
        on_answered: called when a client has had an answer.
        feed: tells subscribers.
        logs: tells what happened to a session.
        redactor: knows the secrets, which no handle may be called like.
    """

    def __init__(
        self,
        places: Places,
        *,
        runs: bool,
        structured: bool,
        on_answered: Callable[[], None],
        feed: Feed,
        logs: Logs,
        redactor: Callable[[], Redactor],
    ) -> None:
        self._places = places
        self._feed = feed
        self._logs = logs
        self._redactor = redactor
        self._on_answered = on_answered
        rows = (*TOOLS, *RUNNING) if runs else TOOLS
        self._rows = {row.name: row for row in rows}
        self._structured = structured
        self._listed = [_tool(row, structured) for row in rows]

    def schema_of(self, tool: str) -> Mapping[str, Any] | None:
        """The schema of a tool's arguments; None where there is no such tool."""
        row = self._rows.get(tool)
        return None if row is None else row.schema

    def takes_long(self, params: types.CallToolRequestParams) -> bool:
        """Whether a call may outlast what its client waits for a request."""
        row = self._rows.get(params.name)
        return row is not None and row.takes_long(params.arguments or {})

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
            if self._redactor().holds(arguments.get("name", "")):
                raise ArgumentError(_NAMED_LIKE_A_KEY)
            reply = await self._called(ctx, row, arguments)
        except (ArgumentError, CallError) as error:
            reply = Reply(text=str(error), is_error=True)
        except EngineError as error:
            reply = Reply(text=_refusal(error), is_error=True)
        return _result(reply, self._structured)

    async def _called(self, ctx: Context, row: ToolRow, arguments: Mapping[str, Any]) -> Reply:
        bench = await self._places.bench(ctx)
        before, cursor = bench.handles.names(), bench.cursor
        try:
            return await row.call(bench, arguments, _reporter(ctx))
        finally:
            await self._logs.tell(ctx, bench.session.since(cursor))
            if bench.handles.names() != before:
                await self._feed.listed_anew(self._places.key(ctx), ctx.session)

    # --- resources ----------------------------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The handles there are, and the timeline."""
        entries = resources.entries(await self._places.bench_there_is(ctx))
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
            text = await resources.read(await self._places.bench_there_is(ctx), params.uri)
        except resources.NoResourceError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": params.uri}) from None
        except EngineError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type=_TEXT, text=text)]
        )

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """For clients of the handshake era."""
        self._feed.subscribe(self._places.key(ctx), params.uri, ctx.session)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Likewise."""
        self._feed.unsubscribe(self._places.key(ctx), params.uri, ctx.session)
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """For clients of the newer era; of tasks they are told nothing unasked, which the acknowledgement says."""
        if (params.notifications.model_extra or {}).get("taskIds"):
            require_declared(ctx)
        return await self._feed.listen(self._places.key(ctx), ctx, params)

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
                text = await review(await self._places.bench_there_is(ctx), given.get("since", ""))
        except ArgumentError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except EngineError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=row.words, messages=[message])

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """What may be meant by the beginning of an argument; nothing where that is none of ours."""
        from mcp_tools.completions import COMPLETED, completions  # loads what the first answer does not wait for

        reference = params.ref
        of = reference.uri if isinstance(reference, types.ResourceTemplateReference) else reference.name
        kind, found = COMPLETED.get((of, params.argument.name)), list[str]()
        if kind is not None:
            bench = await self._places.bench_there_is(ctx)
            found = await completions(kind, params.argument.value, bench, await self._places.directories(ctx, bench))
        return types.CompleteResult(
            completion=types.Completion(
                values=found[:_COMPLETIONS], total=len(found), has_more=len(found) > _COMPLETIONS
            )
        )


def _reporter(ctx: Context) -> Report:
    """Says how far a call is: in its task, or as progress of its request, where the client has asked for that."""

    async def report(progress: Progress) -> None:
        if isinstance(ctx, TaskContext):
            ctx.say(progress.text)
            return
        if not progress.total:  # what is reported has to grow
            return
        with suppress(MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError):  # a client that is gone
            await ctx.session.report_progress(progress.done, progress.total, progress.text)

    return report


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


def _refusal(error: EngineError) -> str:
    if isinstance(error, SessionReadOnlyError) and not error.for_now:  # for `sessions` opens it again by itself
        return f"That could not be kept: {error.reason.rstrip('.')}; when this is mended, call again."
    return f"{str(error).rstrip('.')}."


def _result(reply: Reply, structured: bool) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        structured_content=reply.structured if structured else None,
        is_error=reply.is_error,
        _meta=reply.meta or None,
    )
