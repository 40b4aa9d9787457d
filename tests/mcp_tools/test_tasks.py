"""Tasks: started if the client supports them, polled, cancelled, expired."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from jsonschema import Draft202012Validator
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams

from mcp_tools import tasks as tasks_module
from mcp_tools.middleware import INTERNAL_FAILURE
from mcp_tools.tasks import IDENTIFIER, KEPT_AFTER_END, MAX_TASKS, MIN_LIFETIME, UNKNOWN_TASK, Tasks
from tests.support.mcp_http import MODERN, Web, modern_headers, web

pytestmark = pytest.mark.anyio
KNOWS: Mapping[str, Any] = {"extensions": {IDENTIFIER: {}}}
KNOWS_NOT: Mapping[str, Any] = {}
_TIME = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}\+00:00$"}
TASK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "taskId": {"type": "string", "minLength": 32},
        "status": {"enum": ["working", "completed", "failed", "cancelled"]},
        "createdAt": _TIME,
        "lastUpdatedAt": _TIME,
        "ttlMs": {"type": "integer", "minimum": 1},
        "pollIntervalMs": {"type": "integer", "minimum": 1},
        "resultType": {"enum": ["task", "complete"]},
        "_meta": {},
        "result": {"type": "object", "required": ["content"]},
        "error": {"type": "object", "required": ["code", "message"]},
        "statusMessage": {"type": "string"},
    },
    "required": ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "resultType"],
    "additionalProperties": False,
}
"""JSON Schema of a task in SEP-2663."""


class Peer:
    """Raw requests of the newer era."""

    def __init__(self, server: Web, path: str = "", knows: Mapping[str, Any] = KNOWS) -> None:
        self._server = server
        self._path = path
        self._knows = knows

    async def answer(self, method: str, params: Mapping[str, Any], header: str | None = None) -> dict[str, Any]:
        """The whole response; `header` overrides the header `Mcp-Name`."""
        named = str(params.get("taskId", params.get("name", "")))
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": self._knows,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = modern_headers(method, named if header is None else header)
        response = await self._server.post(json.dumps(body).encode(), path=self._path, headers=headers)
        *_, last = [line for line in response.text.splitlines() if line.startswith(("{", "data: "))]
        answer: dict[str, Any] = json.loads(last.removeprefix("data: "))
        return answer

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.answer(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    async def code(self, method: str, *, header: str | None = None, **params: Any) -> int:
        answer = await self.answer(method, params, header)
        assert "result" not in answer, answer
        return answer["error"]["code"]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.result("tools/call", name=tool, arguments=arguments)

    async def task(self, tool: str, **arguments: Any) -> str:
        """The id of the task that a call returns."""
        begun = await self.call(tool, **arguments)
        Draft202012Validator(TASK).validate(begun)
        assert (begun["resultType"], begun["status"]) == ("task", "working")
        return begun["taskId"]

    async def get(self, task_id: str) -> dict[str, Any]:
        found = await self.result("tasks/get", taskId=task_id)
        Draft202012Validator(TASK).validate(found)
        assert found["resultType"] == "complete"
        return found

    async def ended(self, task_id: str) -> dict[str, Any]:
        """The task after its end."""
        with anyio.fail_after(10):
            while (found := await self.get(task_id))["status"] == "working":  # noqa: ASYNC110 -- as clients do
                await anyio.sleep(0.02)
        return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    return root


@pytest.mark.slow
async def test_waiting_tick_becomes_a_task(project: Path) -> None:
    async with web(project) as server:
        peer = Peer(server)
        await peer.call("view", path="a.txt", name="a", follow=True)
        task = await peer.task("tick", wait=25)
        assert (await peer.get(task))["status"] == "working"
        (project / "a.txt").write_text("two\n")
        found = await peer.ended(task)
        assert found["status"] == "completed"
        assert found["result"]["content"][0]["text"].startswith("a: 1 line changed")
        assert found["lastUpdatedAt"] > found["createdAt"]
        assert await peer.get(task) == found
        assert await peer.result("tasks/cancel", taskId=task) == await peer.result(
            "tasks/update", taskId=task, inputResponses={"unasked": {}}
        )
        assert await peer.get(task) == found


@pytest.mark.slow
async def test_fast_call_returns_its_result(project: Path) -> None:
    async with web(project, runs=True) as server:
        peer = Peer(server)
        for tool, arguments in (
            ("view", {"path": "a.txt"}),
            ("tick", {}),
            ("tick", {"wait": 0.01}),
            ("tick", {"wait": "x"}),
            ("run", {"code": "6 * 7"}),
            ("run", {}),
        ):
            answer = await peer.call(tool, **arguments)
            assert answer["resultType"] == "complete"
            assert "taskId" not in answer
        assert await peer.code("tools/call", name="nobody", arguments={}) == types.INVALID_PARAMS


@pytest.mark.slow
async def test_long_statement_outlives_its_request(
    project: Path,
) -> None:
    async with web(project, runs=True) as server:
        peer = Peer(server)
        task = await peer.task("run", code="import time; time.sleep(0.7); print('done')")
        found = await peer.ended(task)
        assert found["result"]["content"][0]["text"].endswith("\ndone")
        task = await peer.task("run", code="kept = 1\nwhile True: pass", seconds=600)
        assert set(await peer.result("tasks/cancel", taskId=task)) <= {"resultType", "_meta"}
        assert (await peer.ended(task))["status"] == "cancelled"
        assert "  cancelled " in (await peer.call("timeline"))["content"][0]["text"]
        assert (await peer.call("run", code="kept"))["content"][0]["text"].endswith("\n1")
        failing = await peer.task("run", code="time.sleep(0.7); 1 / 0")
        found = await peer.ended(failing)
        assert (found["status"], found["result"]["isError"]) == ("completed", True)


@pytest.mark.slow
async def test_task_reports_replay_progress(project: Path) -> None:
    gate = project / "gate"
    async with web(project, runs=True) as server:
        peer = Peer(server)
        await peer.call("run", code="import os, time")
        gate.touch()
        await peer.call("run", code=f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)")
        gate.unlink()
        task = await peer.task("replay", **{"from": 1})
        found = await peer.get(task)
        assert (found["status"], found["statusMessage"]) == ("working", "statement 2 (2 of 2)")
        gate.touch()
        found = await peer.ended(task)
        assert "statusMessage" not in found
        assert found["result"]["content"][0]["text"].startswith("2 statements ran again")


@pytest.mark.slow
async def test_client_without_tasks_extension(project: Path) -> None:
    async with web(project, runs=True) as server:
        task = await Peer(server).task("tick", wait=25)
        peer = Peer(server, knows=KNOWS_NOT)
        answer = await peer.call("run", code="import time; time.sleep(0.7)")
        assert answer["resultType"] == "complete"
        for method, params in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
            answer = await peer.answer(method, {"taskId": task, **params})
            assert answer["error"]["code"] == types.MISSING_REQUIRED_CLIENT_CAPABILITY
            assert answer["error"]["data"] == {"requiredCapabilities": KNOWS}
        wanted = {"taskIds": [task]}
        code = await peer.code("subscriptions/listen", notifications=wanted)
        assert code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


@pytest.mark.slow
async def test_task_is_visible_only_in_its_session(project: Path) -> None:
    async with web(project) as server:
        peer, other = Peer(server, "/mine"), Peer(server, "/theirs")
        task = await peer.task("tick", wait=25)
        same = Peer(server, "/mine")
        assert (await same.get(task))["status"] == "working"
        for each, task_id in ((other, task), (peer, "x"), (peer, ""), (peer, "x" * 100_000)):
            for method, params in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
                code = await each.code(method, taskId=task_id, header="" if len(task_id) > 1000 else None, **params)
                assert code in (types.INVALID_PARAMS, types.HEADER_MISMATCH)
        assert await peer.code("tasks/get", taskId=task, header="x") == types.HEADER_MISMATCH
        assert await peer.code("tasks/get") == types.INVALID_PARAMS
        assert await peer.code("tasks/update", taskId=task) == types.INVALID_PARAMS
        for method in ("tasks/list", "tasks/result"):
            assert await peer.code(method, taskId=task) == types.METHOD_NOT_FOUND
        assert (await peer.get(task))["status"] == "working"


@pytest.mark.slow
async def test_tasks_end_with_the_server(project: Path) -> None:
    marker = project / "ended"
    code = f"import time\ntry:\n    time.sleep(600)\nfinally:\n    open({str(marker)!r}, 'w').close()"
    with anyio.fail_after(20):
        async with web(project, runs=True) as server:
            await Peer(server).task("run", code=code, seconds=600)


# --- without a server -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def bounded() -> AsyncGenerator[anyio.abc.TaskGroup]:
    """A task group with a timeout."""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            yield group


@dataclass
class FakeSession:
    """A client's capabilities."""

    client_capabilities: types.ClientCapabilities | None


@dataclass(kw_only=True)
class FakeContext(ServerRequestContext[Any, Any]):
    """The part of a request context that tasks use."""

    key: str = "mine"
    protocol_version: str = MODERN
    method: str = "tasks/get"
    session: Any = None
    lifespan_context: Any = None

    def __post_init__(self) -> None:
        self.session = FakeSession(types.ClientCapabilities(extensions={IDENTIFIER: {}}))


class TaskHarness:
    """Tasks with a fixed clock, over calls that last until `done` is set."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.tasks = Tasks(lambda ctx: ctx.key, lambda _: True, group.start_soon, lambda: self.now)  # pyright: ignore
        self.done = anyio.Event()

    async def begin(self, ctx: Any = None) -> Any:
        async def call(_ctx: object) -> dict[str, Any]:
            await self.done.wait()
            return {"content": []}

        params = CallToolRequestParams(name="run")
        return await self.tasks.intercept_tool_call(params, ctx or FakeContext(), call)  # pyright: ignore

    async def ask(self, method: str, task_id: str, ctx: Any = None) -> Any:
        (binding,) = [each for each in self.tasks.methods() if each.method == method]
        params = binding.params_type.model_validate({"taskId": task_id, "inputResponses": {}})
        return await binding.handler(ctx or FakeContext(method=method), params)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "IMMEDIATE_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_task_lifetime() -> None:
    async with bounded() as group:
        harness = TaskHarness(group)
        task = (await harness.begin())["taskId"]
        harness.now += MIN_LIFETIME * 2
        assert (await harness.ask("tasks/get", task))["status"] == "working"
        harness.done.set()
        await anyio.wait_all_tasks_blocked()
        ended = await harness.ask("tasks/get", task)
        assert ended["status"] == "completed"
        assert ended["ttlMs"] == (MIN_LIFETIME * 2 + KEPT_AFTER_END) / timedelta(milliseconds=1)
        harness.now += KEPT_AFTER_END - timedelta(milliseconds=1)
        assert await harness.ask("tasks/get", task) == ended
        harness.now += timedelta(milliseconds=1)
        with pytest.raises(MCPError, match=UNKNOWN_TASK):
            await harness.ask("tasks/get", task)


@pytest.mark.usefixtures("at_once")
async def test_too_many_tasks_return_results_directly() -> None:
    async with bounded() as group:
        harness = TaskHarness(group)
        for _ in range(MAX_TASKS):
            assert (await harness.begin())["resultType"] == "task"
        plain: list[Any] = []

        async def one_more() -> None:
            plain.append(await harness.begin())

        group.start_soon(one_more)
        await anyio.wait_all_tasks_blocked()
        assert plain == []
        assert (await harness.begin(FakeContext(key="theirs")))["resultType"] == "task"
        harness.done.set()
        await anyio.wait_all_tasks_blocked()
        assert plain == [{"content": []}]
        harness.now += MIN_LIFETIME + KEPT_AFTER_END
        harness.done = anyio.Event()
        assert (await harness.begin())["resultType"] == "task"
        group.cancel_scope.cancel()


async def test_cancelled_request_cancels_its_call() -> None:
    async with bounded() as group:
        harness = TaskHarness(group)
        with anyio.move_on_after(0.01):
            await harness.begin()
        with anyio.fail_after(5):
            await anyio.wait_all_tasks_blocked()
    # the task group ends, because no task is left


@pytest.mark.usefixtures("at_once")
async def test_protocol_error_fails_the_task() -> None:
    async with bounded() as group:
        harness = TaskHarness(group)
        params = CallToolRequestParams(name="run")
        for failure, error in (
            (MCPError(-32000, "no", {"why": 1}), {"code": -32000, "message": "no", "data": {"why": 1}}),
            (SystemExit(4), {"code": -32603, "message": INTERNAL_FAILURE}),
        ):
            go = anyio.Event()

            async def fail(_ctx: object, go: anyio.Event = go, failure: BaseException = failure) -> dict[str, Any]:
                await go.wait()
                raise failure

            begun: Any = await harness.tasks.intercept_tool_call(params, FakeContext(), fail)  # pyright: ignore
            go.set()
            await anyio.wait_all_tasks_blocked()
            found = await harness.ask("tasks/get", begun["taskId"])
            assert (found["status"], found["error"]) == ("failed", error)
            assert "result" not in found
        old: Any = FakeContext(protocol_version="2025-11-25")
        with pytest.raises(MCPError, match="Method not found"):
            await harness.ask("tasks/get", begun["taskId"], old)
        harness.done.set()
        assert await harness.begin(old) == {"content": []}
