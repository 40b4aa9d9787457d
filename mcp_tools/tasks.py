"""Calls that outlast their request: the extension `io.modelcontextprotocol/tasks` of 2026-07-28 (SEP-2663).

A call that may take long and is not done in a moment is answered with a task, where the request says that its client
knows tasks; the client asks for the result until it is there. What a task is for lives in this process alone: it ends
with the server, and with it whatever it had running. Everything else that is known of a call is on the session's log,
where `timeline` finds it. Must not know sessions or tools. Its handlers are registered by `server`.

Times are the server's, in UTC. A task is forgotten when its time to live is over, and never before: so what bounds
their number is that further calls are answered as if there were no tasks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from mcp_tools.guard import guard

Context = ServerRequestContext[Any, Any]
Status = Literal["working", "completed", "failed", "cancelled"]
IDENTIFIER: Final = "io.modelcontextprotocol/tasks"
MOST_TASKS: Final = 64
"""Of one session, those included that have ended and are kept."""
AT_ONCE_SECONDS: Final = 0.5
"""A call that is done by then is answered with its result."""
LIVED: Final = timedelta(minutes=30)
"""How long a task can be asked for at least, from its beginning."""
KEPT: Final = timedelta(minutes=10)
"""And from its end."""
POLL_MS: Final = 1000
_ID_BYTES: Final = 24


class TaskParams(types.RequestParams):
    """Of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """Of `tasks/update`."""

    input_responses: dict[str, Any]


class Task:
    """A call under way, or what came of it. `key` is its session's, as `places` has it."""

    def __init__(self, key: str, now: datetime) -> None:
        self.task_id = secrets.token_urlsafe(_ID_BYTES)
        self.key = key
        self.status: Status = "working"
        self.created = self.updated = now
        self.expires = now + LIVED
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.result: HandlerResult = None
        self.error: MCPError | None = None
        self.said = ""

    def say(self, text: str, now: datetime) -> None:
        """That is being done now."""
        self.said, self.updated = text, now

    def end(self, status: Status, now: datetime) -> None:
        """Nothing more comes of it."""
        self.status, self.updated = status, now
        self.expires = max(self.expires, now + KEPT)
        self.ended.set()


@dataclass(kw_only=True)
class TaskContext(Context):
    """Of a call that has a task: what goes on is said there, because the stream of its request may have ended."""

    say: Callable[[str], None]
    """Has the task say what is being done."""


class Tasks(Extension):
    """The tasks of one server.

    Args:
        key: what shares the session that a request means; a task is known to requests of the same one alone.
        is_long: whether a call may take long.
        spawn: starts a function beside the request, until the server ends.
        now: the time.
    """

    identifier = IDENTIFIER

    def __init__(
        self,
        key: Callable[[Context], str],
        is_long: Callable[[types.CallToolRequestParams], bool],
        spawn: Callable[..., object],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.key = key
        self.is_long = is_long
        self.spawn = spawn
        self._now = now
        self._tasks: dict[str, Task] = {}

    def methods(self) -> Sequence[MethodBinding]:
        """What the server has to answer beside `tools/call`; for the newer era alone."""
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            MethodBinding("tasks/get", TaskParams, self._get, versions),
            MethodBinding("tasks/update", UpdateParams, self._update, versions),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, versions),
        )

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Answers with a task where the call is not done in a moment, and its client knows tasks."""
        task = self._begun(ctx) if self.is_long(params) and is_declared(ctx) else None
        if task is None:
            return await call_next(ctx)
        # A task has no messages to a log, and the stream of its request may have ended by then.
        known: dict[str, Any] = {field.name: getattr(ctx, field.name) for field in fields(ServerRequestContext)} | {
            "meta": None
        }
        of_task = TaskContext(**known, say=lambda text: task.say(text, self._now()))
        self.spawn(self.carry_out, task, of_task, call_next)
        try:
            with anyio.move_on_after(AT_ONCE_SECONDS):
                await task.ended.wait()
        except anyio.get_cancelled_exc_class():
            task.scope.cancel()
            del self._tasks[task.task_id]
            raise
        if task.status == "working":
            return {"resultType": "task", **_described(task)}
        del self._tasks[task.task_id]
        if task.status != "completed":
            raise task.error or MCPError(types.INTERNAL_ERROR, "The server is ending.")
        return task.result

    def _begun(self, ctx: Context) -> Task | None:
        """A new task of the request's session; None where there are too many."""
        self._forget()
        task = Task(self.key(ctx), self._now())
        if sum(each.key == task.key for each in self._tasks.values()) >= MOST_TASKS:
            return None
        self._tasks[task.task_id] = task
        return task

    async def carry_out(self, task: Task, ctx: Context, call: CallNext) -> None:
        """The call of a task, to its end."""
        status: Status = "cancelled"
        try:
            with task.scope:
                task.result = await guard(ctx, call)
                status = "completed"
        except MCPError as error:
            task.error, status = error, "failed"
        finally:
            task.end(status, self._now())

    def detailed(self, task: Task) -> dict[str, Any]:
        """All there is to say of a task."""
        said = _described(task)
        if task.status == "completed":
            said["result"] = _plain(task.result)
        if task.error is not None:
            error = task.error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
            said |= {"statusMessage": task.error.error.message, "error": error}
        return said

    def take(self, task: Task, responses: Mapping[str, Any]) -> None:
        """Input for a task: our tools ask for none, and what nobody asked for is passed over."""

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return self.detailed(self._found(ctx, params))

    async def _update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        self.take(self._found(ctx, params), params.input_responses)
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        self._found(ctx, params).scope.cancel()
        return {}

    def _found(self, ctx: Context, params: TaskParams) -> Task:
        """The task that a request is about. Raises MCPError."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        require_declared(ctx)
        _check_header(ctx, params.task_id)
        self._forget()
        task = self._tasks.get(params.task_id)
        if task is None or task.key != self.key(ctx):
            raise MCPError(types.INVALID_PARAMS, "There is no task of that id in this session, or no longer.")
        return task

    def _forget(self) -> None:
        """Lets go of what has lived long enough and does nothing any more."""
        now = self._now()
        self._tasks = {
            task_id: task for task_id, task in self._tasks.items() if task.status == "working" or now < task.expires
        }


def is_declared(ctx: Context) -> bool:
    """Whether the client knows tasks, as its request says."""
    capabilities = ctx.session.client_capabilities
    declared = None if capabilities is None else capabilities.extensions
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and IDENTIFIER in (declared or ())


def require_declared(ctx: Context) -> None:
    """Raises MCPError where the client does not know tasks."""
    if not is_declared(ctx):
        wanted: dict[str, Any] = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs the extension {IDENTIFIER}.", wanted)


def _check_header(ctx: Context, task_id: str) -> None:
    """Over HTTP a request may say in a header which task it is about, for whatever routes it: that has to be true."""
    request: object = ctx.request
    header = request.headers.get(MCP_NAME_HEADER) if isinstance(request, HTTPConnection) else None
    if header is not None and decode_header_value(header) != task_id:
        raise MCPError(types.HEADER_MISMATCH, f"the header {MCP_NAME_HEADER} does not name the task of the request")


def _described(task: Task) -> dict[str, Any]:
    said = {"statusMessage": task.said} if task.said and task.status == "working" else {}
    return {
        **said,
        "taskId": task.task_id,
        "status": task.status,
        "createdAt": task.created.isoformat(timespec="milliseconds"),
        "lastUpdatedAt": task.updated.isoformat(timespec="milliseconds"),
        "ttlMs": round((task.expires - task.created) / timedelta(milliseconds=1)),
        "pollIntervalMs": POLL_MS,
    }


def _plain(result: HandlerResult) -> dict[str, Any]:
    """The result as the call would have been answered."""
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(result or {})
