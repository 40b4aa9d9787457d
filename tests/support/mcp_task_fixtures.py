"""The tools that the official conformance suite of MCP expects for the extension for tasks, on the product's
`Tasks`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import CallNext, ServerRequestContext
from mcp.shared.exceptions import MCPError

from mcp_tools.tasks import Task, Tasks, require_declared

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]
_CURRENT: ContextVar[str] = ContextVar("task of a conformance fixture")
_JOB_SECONDS = 1.0


def _text(text: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], **more}


def _question(message: str, name: str) -> Json:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


class AskingTasks(Tasks):
    """Tasks whose calls may ask for input, in the place of those of a server."""

    def __init__(self, others: Tasks) -> None:
        super().__init__(others.key, _is_long, others.spawn)
        self._asked: dict[str, Json] = {}
        self._answered: dict[str, anyio.Event] = {}

    async def run(self, task: Task, ctx: Context, call: CallNext) -> None:
        _CURRENT.set(task.task_id)
        await super().run(task, ctx, call)

    async def ask(self, questions: Mapping[str, Json]) -> None:
        """Waits until the client of the present task has answered all of them."""
        task_id = _CURRENT.get()
        self._asked[task_id], self._answered[task_id] = dict(questions), anyio.Event()
        await self._answered[task_id].wait()

    def describe(self, task: Task) -> Json:
        said, asked = super().describe(task), self._asked.get(task.task_id)
        if asked and task.status == "working":
            said |= {"status": "input_required", "inputRequests": asked}
        return said

    def accept_input(self, task: Task, responses: Mapping[str, Any]) -> None:
        asked = self._asked.get(task.task_id, {})
        for key in responses:
            asked.pop(key, None)
        if not asked and task.task_id in self._answered:
            self._answered[task.task_id].set()


def _is_long(params: types.CallToolRequestParams) -> bool:
    if params.name == "test_tool_with_task":
        return bool(params.input_responses)
    return params.name in TASK_TOOLS and params.name != "greet"


async def _greet(_tasks: AskingTasks, _ctx: Context, params: types.CallToolRequestParams) -> Json:
    return _text(f"Hello, {(params.arguments or {})['name']}!")


async def _compute(_tasks: AskingTasks, _ctx: Context, params: types.CallToolRequestParams) -> Json:
    await anyio.sleep((params.arguments or {})["seconds"])
    return _text("computed")


async def _fail(_tasks: AskingTasks, ctx: Context, _params: types.CallToolRequestParams) -> Json:
    require_declared(ctx)
    await anyio.sleep(_JOB_SECONDS)
    return _text("the job failed", isError=True)


async def _break(_tasks: AskingTasks, _ctx: Context, _params: types.CallToolRequestParams) -> Json:
    await anyio.sleep(_JOB_SECONDS)
    raise MCPError(types.INTERNAL_ERROR, "the job broke the protocol")


async def _confirm(tasks: AskingTasks, _ctx: Context, _params: types.CallToolRequestParams) -> Json:
    await tasks.ask({"confirm": _question("Delete it?", "confirm")})
    return _text("deleted")


async def _ask_twice(tasks: AskingTasks, _ctx: Context, _params: types.CallToolRequestParams) -> Json:
    await tasks.ask({"first": _question("The first?", "name"), "second": _question("The second?", "name")})
    return _text("both are there")


async def _ask_first(_tasks: AskingTasks, ctx: Context, params: types.CallToolRequestParams) -> Json:
    require_declared(ctx)
    given = params.input_responses
    if not given:
        question = _question("What is your name?", "name")
        return {"resultType": "input_required", "inputRequests": {"user_name": question}}
    await anyio.sleep(_JOB_SECONDS)
    return _text(f"Hello, {given['user_name'].model_dump_json(by_alias=True)}!")


TASK_TOOLS: Mapping[str, Callable[[AskingTasks, Context, types.CallToolRequestParams], Awaitable[Json]]] = {
    "greet": _greet,
    "slow_compute": _compute,
    "failing_job": _fail,
    "protocol_error_job": _break,
    "confirm_delete": _confirm,
    "multi_input": _ask_twice,
    "test_tool_with_task": _ask_first,
}
