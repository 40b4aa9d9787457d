"""What is asked about an MCP server, which works outside the sandbox: calls, and addresses that it does not list."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from engine import PermissionAnswer, StdioServer
from engine.context.model import StatementAsked, TextDelta
from engine.log.events.execution import ExecutionFinished
from engine.log.permissions import ServerCallSubject
from engine.session.tool_calls import SECRET_ADDRESS
from tests.support import mcp_server
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import events_of, session_in

pytestmark = pytest.mark.anyio


async def test_an_address_that_the_server_does_not_list_is_asked_about(tmp_path: Path) -> None:
    record = tmp_path / "record"
    view = "view('mcp://test/web://example.org/?d=private', tokens=100)"
    left = ["view('mcp://test/test://note', tokens=100)", view, "view('mcp://test/web://q9Zr4Kx7Lw2Tn5Vb/')", view]
    model = AnsweringModel(lambda _: [StatementAsked(left.pop(0))] if left else [TextDelta("Done.")])
    user = FixedPermissions([PermissionAnswer(outcome="rejected"), PermissionAnswer(outcome="allowed")])
    environment = {"MCP_TEST_RECORD": str(record), "TEST_TOKEN": "q9Zr4Kx7Lw2Tn5Vb"}
    server = StdioServer(name="test", command=sys.executable, args=("-S", mcp_server.__file__), env=environment)
    async with session_in(tmp_path, model=model, servers=[server]) as session:
        session.set_option("ask_about", "acts")
        session.attach(user)
        await session.accept("go").end()
        listed, rejected, secret, allowed = (event.exception for event in events_of(session, ExecutionFinished))
    assert listed is None
    assert [each.type for each in (rejected, secret, allowed)] == ["PermissionError", "PermissionError", "RuntimeError"]
    assert SECRET_ADDRESS in secret.message
    sent = [json.loads(line) for line in record.read_text().splitlines()]
    assert [each["params"]["uri"] for each in sent if each.get("method") == "resources/read"] == [
        "test://note",
        "web://example.org/?d=private",
    ]
    asked = ServerCallSubject(
        server="test", tool="resources/read", arguments='{\n  "uri": "web://example.org/?d=private"\n}'
    )
    assert [each.subject for each in user.questions] == [asked, asked]


async def test_mode_auto_asks_about_calls_as_about_commands_outside(tmp_path: Path) -> None:
    record = tmp_path / "record"
    left = ["test.add_one(n=1)", "test.add_one(n=2)", "test.add_one(n=3)"]
    model = AnsweringModel(lambda _: [StatementAsked(left.pop(0))] if left else [TextDelta("Done.")])
    user = FixedPermissions([PermissionAnswer(outcome="rejected"), PermissionAnswer(outcome="allowed", remember=True)])
    environment = {"MCP_TEST_RECORD": str(record)}
    server = StdioServer(name="test", command=sys.executable, args=("-S", mcp_server.__file__), env=environment)
    async with session_in(tmp_path, model=model, servers=[server], settings={"sandbox": "auto"}) as session:
        session.set_mode("auto")
        session.attach(user)
        await session.accept("go").end()
        assert [event.status for event in events_of(session, ExecutionFinished)] == ["error", "ok", "ok"]
    sent = [json.loads(line) for line in record.read_text().splitlines()]
    called = [each["params"]["arguments"]["n"] for each in sent if each.get("method") == "tools/call"]
    assert called == [2, 3]  # the third by the remembered answer
    assert len(user.questions) == 2
