"""Calls that outlast their request: the extension `io.modelcontextprotocol/tasks` of 2026-07-28 (SEP-2663).

If a client supports tasks, a slow call returns a task after a moment, and the client polls for the result. Tasks exist
only in this process: they and their calls end with the server. The session's log keeps what ran, for `timeline`.

Times are the server's, in UTC. A task lives exactly as long as it promises, so the number of tasks is bounded by
serving further calls without tasks. Never knows sessions or tools. `server` registers the handlers.
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

from mcp_tools.middleware import contain_failures

Context = ServerRequestContext[Any, Any]
Status = Literal["working", "completed", "failed", "cancelled"]
IDENTIFIER: Final = "io.modelcontextprotocol/tasks"
MAX_TASKS: Final = 64
"""Tasks of one session, including ended ones."""
IMMEDIATE_SECONDS: Final = 0.5
"""A call that ends within this time returns its result instead of a task."""
MIN_LIFETIME: Final = timedelta(minutes=30)
"""A task is available at least this long after its start."""
KEPT_AFTER_END: Final = timedelta(minutes=10)
"""A task is available at least this long after its end."""
POLL_MS: Final = 1000
_ID_BYTES: Final = 24
UNKNOWN_TASK: Final = "This session has no task with that id; it may have expired."


class TaskParams(types.RequestParams):
    """Parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """Parameters of `tasks/update`."""

    input_responses: dict[str, Any]


class Task:
    """A running or ended call. `key` identifies its session."""

    def __init__(self, key: str, now: datetime) -> None:
        self.task_id = secrets.token_urlsafe(_ID_BYTES)
        self.key = key
        self.status: Status = "working"
        self.created = self.updated = now
        self.expires = now + MIN_LIFETIME
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.result: HandlerResult = None
        self.error: MCPError | None = None
        self.message = ""

    def set_message(self, text: str, now: datetime) -> None:
        """Set the progress message."""
        self.message, self.updated = text, now

    def end(self, status: Status, now: datetime) -> None:
        """End the task."""
        self.status, self.updated = status, now
        self.expires = max(self.expires, now + KEPT_AFTER_END)
        self.ended.set()


@dataclass(kw_only=True)
class TaskContext(Context):
    """The context of a call with a task. Progress goes to the task, because the request's stream may have ended."""

    set_message: Callable[[str], None]


class Tasks(Extension):
    """The tasks of one server.

    Args:
        key: returns the key of a request's session; a task is visible only to requests with the same key.
        is_long: whether a call may take long.
        spawn: starts a function in the background, until the server ends.
        now: returns the time.
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
        """The additional methods, in the newer era only."""
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            MethodBinding("tasks/get", TaskParams, self._get, versions),
            MethodBinding("tasks/update", UpdateParams, self._update, versions),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, versions),
        )

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Return a task if the call does not end at once and the client supports tasks."""
        task = self._start(ctx) if self.is_long(params) and is_declared(ctx) else None
        if task is None:
            return await call_next(ctx)
        # Without `meta` the call sends no log messages, because the request's stream may end before the call does.
        known: dict[str, Any] = {field.name: getattr(ctx, field.name) for field in fields(ServerRequestContext)} | {
            "meta": None
        }
        task_context = TaskContext(**known, set_message=lambda text: task.set_message(text, self._now()))
        self.spawn(self.run, task, task_context, call_next)
        try:
            with anyio.move_on_after(IMMEDIATE_SECONDS):
                await task.ended.wait()
        except anyio.get_cancelled_exc_class():
            task.scope.cancel()
            del self._tasks[task.task_id]
            raise
        if task.status == "working":
            return {"resultType": "task", **_summary(task)}
        del self._tasks[task.task_id]
        if task.status != "completed":
            raise task.error or MCPError(types.INTERNAL_ERROR, "The server is shutting down.")
        return task.result

    def _start(self, ctx: Context) -> Task | None:
        """Create a task for the request's session; return None if there are too many."""
        self._remove_expired()
        task = Task(self.key(ctx), self._now())
        if sum(each.key == task.key for each in self._tasks.values()) >= MAX_TASKS:
            return None
        self._tasks[task.task_id] = task
        return task

    async def run(self, task: Task, ctx: Context, call: CallNext) -> None:
        """Run a task's call to its end."""
        status: Status = "cancelled"
        try:
            with task.scope:
                task.result = await contain_failures(ctx, call)
                status = "completed"
        except MCPError as error:
            task.error, status = error, "failed"
        finally:
            task.end(status, self._now())

    def describe(self, task: Task) -> dict[str, Any]:
        """The full state of a task, with its result or error."""
        described = _summary(task)
        if task.status == "completed":
            described["result"] = _as_json(task.result)
        if task.error is not None:
            error = task.error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
            described |= {"statusMessage": task.error.error.message, "error": error}
        return described

    def accept_input(self, task: Task, responses: Mapping[str, Any]) -> None:
        """Accept input for a task. Our tools never ask for input, so it is ignored."""

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return self.describe(self._find(ctx, params))

    async def _update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        self.accept_input(self._find(ctx, params), params.input_responses)
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        self._find(ctx, params).scope.cancel()
        return {}

    def _find(self, ctx: Context, params: TaskParams) -> Task:
        """The task of a request. Raises MCPError."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        require_declared(ctx)
        _check_header(ctx, params.task_id)
        self._remove_expired()
        task = self._tasks.get(params.task_id)
        if task is None or task.key != self.key(ctx):
            raise MCPError(types.INVALID_PARAMS, UNKNOWN_TASK)
        return task

    def _remove_expired(self) -> None:
        now = self._now()
        self._tasks = {
            task_id: task for task_id, task in self._tasks.items() if task.status == "working" or now < task.expires
        }


def is_declared(ctx: Context) -> bool:
    """Whether the request says that its client supports tasks."""
    capabilities = ctx.session.client_capabilities
    declared = None if capabilities is None else capabilities.extensions
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and IDENTIFIER in (declared or ())


def require_declared(ctx: Context) -> None:
    """Raise MCPError if the client does not support tasks."""
    if not is_declared(ctx):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"This request needs the extension {IDENTIFIER}.", required
        )


def _check_header(ctx: Context, task_id: str) -> None:
    """Check the header that names the task for routers: over HTTP it must match the request."""
    request: object = ctx.request
    header = request.headers.get(MCP_NAME_HEADER) if isinstance(request, HTTPConnection) else None
    if header is not None and decode_header_value(header) != task_id:
        raise MCPError(types.HEADER_MISMATCH, f"the header {MCP_NAME_HEADER} does not name the task of the request")


def _summary(task: Task) -> dict[str, Any]:
    message = {"statusMessage": task.message} if task.message and task.status == "working" else {}
    return {
        **message,
        "taskId": task.task_id,
        "status": task.status,
        "createdAt": task.created.isoformat(timespec="milliseconds"),
        "lastUpdatedAt": task.updated.isoformat(timespec="milliseconds"),
        "ttlMs": round((task.expires - task.created) / timedelta(milliseconds=1)),
        "pollIntervalMs": POLL_MS,
    }


def _as_json(result: HandlerResult) -> dict[str, Any]:
    """The result in the form of a direct response."""
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(result or {})
