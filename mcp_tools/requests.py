"""The handlers of MCP requests, and the choice of the session that a request belongs to.

For both eras and every transport. Owns how errors reach a client: what its model can correct is a result with
`isError`, everything else is an error of the protocol. `server` registers the handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from engine import is_kept_out
from engine.core.errors import EngineError, SessionReadOnlyError
from mcp_tools import resources
from mcp_tools.access import AccessError, Roots, session_roots
from mcp_tools.notifications import LogMessages, Subscriptions
from mcp_tools.prompts import COMPLETED, PROMPTS, completions, orient, review
from mcp_tools.replies import ArgumentError, CallError, Reply, output_schema
from mcp_tools.sessions import SessionPool
from mcp_tools.tasks import TaskContext, require_declared
from mcp_tools.tools import PYTHON_TOOLS, TOOLS
from mcp_tools.tools.schema import ProgressReporter, ToolRow, check_arguments

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import Form, FormAnswer, Progress
    from engine.log.redaction import Redactor
    from mcp_tools.client_session import ClientSession

logger = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
DEFAULT_SESSION: Final = "default"
"""The session over HTTP if the path names none."""
_ROOTS_SECONDS: Final = 5.0
_TEXT: Final = "text/plain"
_MAX_COMPLETIONS: Final = 100
SECRET_NAME: Final = "`name` contains a secret, and names are stored unredacted; choose another name."  # noqa: S105 -- a sentence, no secret
NOT_SAVED: Final = "The session cannot be saved: {reason}. Fix this, then call again."
_ALWAYS_LOAD: Final = {"anthropic/alwaysLoad": True}
"""Makes Claude Code show its models the full tools. By default it shows only names, and schemas after a search."""


class SessionRouter:
    """Finds the session of a request: over HTTP by its path, on stdio the session of this process.

    Args:
        pool: opens the sessions.
        limit: the roots of the command line; None if there are none.
        session: the name of the session on stdio; None for a new one.
    """

    def __init__(self, pool: SessionPool, limit: Roots | None, session: str | None) -> None:
        self._pool = pool
        self._limit = limit
        self._session = session

    def key(self, ctx: Context) -> str:
        """The key of the request's session in the pool."""
        return self._key_and_name(ctx)[0]

    def _key_and_name(self, ctx: Context) -> tuple[str, str | None]:
        request: object = ctx.request
        if isinstance(request, HTTPConnection):
            name = request.path_params.get("name", DEFAULT_SESSION)
            return name, name
        return self._session or "", self._session

    async def session(self, ctx: Context) -> ClientSession:
        """The request's session, opened if necessary. Raises CallError if it cannot be opened."""
        key, name = self._key_and_name(ctx)
        return await self._pool.open(key, name, lambda: self._roots(ctx), _client_name(ctx))

    async def existing_session(self, ctx: Context) -> ClientSession | None:
        """The request's session if it exists already: reading never creates one."""
        key, name = self._key_and_name(ctx)
        if name is None:
            return await self._pool.find(key)
        try:
            return await self.session(ctx)
        except CallError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None

    async def directories(self, ctx: Context, session: ClientSession | None) -> Sequence[str]:
        """The directories of the session, or those of a future one."""
        if session is not None:
            return (session.engine_session.cwd, *session.engine_session.directories)
        try:
            return (await self._roots(ctx)).directories
        except AccessError:
            return ()

    async def _roots(self, ctx: Context) -> Roots:
        return session_roots(self._limit, await _client_roots(ctx), is_kept_out)


def _client_name(ctx: Context) -> str:
    params = ctx.session.client_params
    info = None if params is None else params.client_info
    return "" if info is None else f"{info.name} {info.version}".strip()


async def _client_roots(ctx: Context) -> Sequence[str] | None:
    """The roots of a client of the handshake era; None if it has none, or in the newer era."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not ctx.session.can_send_request:
        return None
    try:
        # Related to this request, because over HTTP there may be no other stream to the client.
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(
            types.ListRootsRequest(), types.ListRootsResult, _ROOTS_SECONDS, related
        )
    except (MCPError, ValidationError) as error:
        logger.warning("the client did not return its roots: %s", error)
        return None
    return [str(root.uri) for root in answer.roots]


class RequestHandlers:
    """The handlers of one server's requests.

    Args:
        router: finds the session of a request.
        allow_run: whether clients may run Python.
        structured: whether replies include `structuredContent`.
        on_response: called after each response.
        subscriptions: notifies subscribers.
        log_messages: sends log messages.
        redactor: knows the secrets, which handle names must not contain.
    """

    def __init__(
        self,
        router: SessionRouter,
        *,
        allow_run: bool,
        structured: bool,
        on_response: Callable[[], None],
        subscriptions: Subscriptions,
        log_messages: LogMessages,
        redactor: Callable[[], Redactor],
    ) -> None:
        self._router = router
        self._subscriptions = subscriptions
        self._log_messages = log_messages
        self._redactor = redactor
        self._on_response = on_response
        rows = (*TOOLS, *PYTHON_TOOLS) if allow_run else TOOLS
        self._rows = {row.name: row for row in rows}
        self._structured = structured
        self._tools = [_tool(row, structured) for row in rows]

    async def note_response(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: start slow work, such as loading the engine, only after a response."""
        result = await call_next(ctx)
        self._on_response()
        return result

    # --- tools --------------------------------------------------------------------------------------------------------

    def schema_of(self, tool: str) -> Mapping[str, Any] | None:
        """The schema of a tool's arguments; None for an unknown tool."""
        row = self._rows.get(tool)
        return None if row is None else row.schema

    def takes_long(self, params: types.CallToolRequestParams) -> bool:
        """Whether a call may outlast a client's timeout."""
        row = self._rows.get(params.name)
        return row is not None and row.takes_long(params.arguments or {})

    async def list_tools(self, _ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List all tools."""
        return types.ListToolsResult(tools=self._tools)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool."""
        row = self._rows.get(params.name)
        if row is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}; the tools are {', '.join(self._rows)}")
        try:
            arguments = check_arguments(row.name, row.schema, params.arguments or {})
            if self._redactor().holds(arguments.get("name", "")):
                raise ArgumentError(SECRET_NAME)
            reply = await self._call(ctx, row, arguments)
        except CallError as error:
            reply = Reply(text=str(error), is_error=True)
        except EngineError as error:
            reply = Reply(text=_engine_failure(error), is_error=True)
        return _result(reply, self._structured)

    async def _call(self, ctx: Context, row: ToolRow, arguments: Mapping[str, Any]) -> Reply:
        session = await self._router.session(ctx)
        before, cursor = session.handles.names(), session.cursor
        _may_ask(ctx)
        try:
            return await row.call(session, arguments, _progress_reporter(ctx))
        finally:
            await self._log_messages.send(ctx, session.engine_session.since(cursor))
            if session.handles.names() != before:
                await self._subscriptions.publish_list_changed(self._router.key(ctx), ctx.session)

    # --- resources ----------------------------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List the handles and the timeline."""
        existing = resources.existing(await self._router.existing_session(ctx))
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=each.uri, name=each.name, description=each.description, mime_type=_TEXT)
                for each in existing
            ]
        )

    async def list_templates(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the kinds of URIs."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=template, name=template.partition(":")[0], description=words, mime_type=_TEXT
                )
                for template, words in resources.TEMPLATES.items()
            ]
        )

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Read a resource, without a tick."""
        try:
            text = await resources.read(await self._router.existing_session(ctx), params.uri)
        except resources.UnknownResourceError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": params.uri}) from None
        except EngineError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type=_TEXT, text=text)]
        )

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Subscribe a client of the handshake era."""
        self._subscriptions.subscribe(self._router.key(ctx), params.uri, ctx.session)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Unsubscribe a client of the handshake era."""
        self._subscriptions.unsubscribe(self._router.key(ctx), params.uri, ctx.session)
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of the newer era. It has no notifications about tasks, and the acknowledgement says so."""
        if (params.notifications.model_extra or {}).get("taskIds"):
            require_declared(ctx)
        return await self._subscriptions.listen(self._router.key(ctx), ctx, params)

    # --- prompts, completions -----------------------------------------------------------------------------------------

    async def list_prompts(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List all prompts."""
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=row.name,
                    title=row.title,
                    description=row.description,
                    arguments=[
                        types.PromptArgument(name=name, description=words, required=False)
                        for name, words in row.arguments.items()
                    ],
                )
                for row in PROMPTS.values()
            ]
        )

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return a prompt, with its arguments filled in."""
        row, given = PROMPTS.get(params.name), params.arguments or {}
        if row is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}; the prompts are {', '.join(PROMPTS)}")
        try:
            if row.name == "orient":
                text = orient(given.get("path", ""))
            else:
                text = await review(await self._router.existing_session(ctx), given.get("since", ""))
        except ArgumentError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except EngineError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=row.description, messages=[message])

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Complete an argument; an unknown argument has no completions."""
        reference = params.ref
        owner = reference.uri if isinstance(reference, types.ResourceTemplateReference) else reference.name
        kind, found = COMPLETED.get((owner, params.argument.name)), list[str]()
        if kind is not None:
            session = await self._router.existing_session(ctx)
            directories = await self._router.directories(ctx, session)
            found = await completions(kind, params.argument.value, session, directories)
        return types.CompleteResult(
            completion=types.Completion(
                values=found[:_MAX_COMPLETIONS], total=len(found), has_more=len(found) > _MAX_COMPLETIONS
            )
        )


def _progress_reporter(ctx: Context) -> ProgressReporter:
    """Report progress through the call's task, or through its request if the client asked for progress."""

    async def report(progress: Progress) -> None:
        if isinstance(ctx, TaskContext):
            ctx.set_message(progress.text)
            return
        if not progress.total:  # MCP requires progress to increase
            return
        with suppress(MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client is gone
            await ctx.session.report_progress(progress.done, progress.total, progress.text)

    return report


NOT_ASKED: Final = "this MCP client cannot be asked during a call"
NOT_SHOWN: Final = "the MCP client could not show the question"


def _may_ask(ctx: Context) -> None:
    """Let statements of this request ask the client's user."""
    from mcp_tools.client_session import ASKING  # after the first response

    ASKING.set(_ClientForms(ctx))


class _ClientForms:
    """Asks the user of a client of the handshake era that shows forms (`engine.Forms`).

    The newer era has no requests of servers. A task cannot ask either, because no request waits for it.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def fill(self, form: Form) -> FormAnswer:
        """Return the user's answer. Cancelling the wait withdraws the question."""
        from engine import FormAnswer  # after the first response
        from engine.log.forms import answer_of, schema_of

        session = self._ctx.session
        capabilities = session.client_capabilities
        asked = None if capabilities is None else capabilities.elicitation
        # Without a mode it means forms, as in the first version that had them.
        has_forms = asked is not None and (asked.form is not None or asked.url is None)
        if not has_forms or not session.can_send_request or isinstance(self._ctx, TaskContext):
            return FormAnswer(outcome="declined", note=NOT_ASKED)
        try:
            # Related to this request, because over HTTP there may be no other stream to the client.
            answer = await session.elicit_form(form.text, schema_of(form), self._ctx.request_id)
        except (MCPError, ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            logger.warning("the client did not answer a question: %s", error)
            return FormAnswer(outcome="declined", note=NOT_SHOWN)
        return answer_of(form, answer.action, answer.content)


def _tool(row: ToolRow, structured: bool) -> types.Tool:
    return types.Tool(
        name=row.name,
        title=row.title,
        description=row.description,
        input_schema=dict(row.schema),
        output_schema=output_schema(row.meta_keys) if structured else None,
        annotations=types.ToolAnnotations(
            read_only_hint=row.read_only, destructive_hint=row.destructive, open_world_hint=row.destructive
        ),
        _meta=_ALWAYS_LOAD,
    )


def _engine_failure(error: EngineError) -> str:
    if isinstance(error, SessionReadOnlyError) and not error.for_now:  # because the pool reopens the session
        return NOT_SAVED.format(reason=error.reason.rstrip("."))
    return f"{str(error).rstrip('.')}."


def _result(reply: Reply, structured: bool) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        structured_content=reply.structured if structured else None,
        is_error=reply.is_error,
        _meta=reply.meta or None,
    )
