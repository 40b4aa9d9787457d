"""Commands as tool calls: as text, or in terminals for editors that draw them."""

from __future__ import annotations

from typing import Any

import pytest

from acp_adapter import v1
from acp_adapter.pump import Streams
from acp_adapter.shown import Shown
from acp_adapter.updates.calls import TERMINAL_CHARS
from engine.core.execution import Captured
from engine.core.ids import ExecutionId, ToolCallId
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import CommandEnded
from engine.log.events.session import PermissionAnswered
from engine.session.journal import OutputStreamed
from tests.support.scripts import transcript
from tests.support.shown import LoggedFacts, replayed, screen, stamped, updates_of

pytestmark = pytest.mark.anyio
CALL, PARENT = ToolCallId("c"), ToolCallId("p")
BEGUN = ToolCall(tool_call_id=CALL, tool="bash", arguments={"command": "make", "cwd": "src"}, parent_id=PARENT)
ENDED = CommandEnded(
    execution_id=ExecutionId("e"),
    tool_call_id=CALL,
    cwd="/w/src",
    code=2,
    output=Captured(text="one\ntwo\n", total_bytes=8),
)
RESULT = ToolResult(tool_call_id=CALL, status="ok", text="exit code 2", parent_id=PARENT)
TERMINAL = {"type": "terminal", "terminalId": "c"}


def texts(update: dict[str, Any]) -> list[str]:
    return [block["content"]["text"] for block in update["content"]]


async def test_command_output_as_text() -> None:
    async with screen() as shown:
        await shown.show(BEGUN)
        (first,) = await shown.show(OutputStreamed(CALL, "stdout", "one\n"))
        (second,) = await shown.show(OutputStreamed(CALL, "stdout", "two\n"))
        ended, result = await shown.show(ENDED, RESULT)
    assert texts(first) == ["```\none\n```"]  # the command is in the title
    assert texts(second) == ["```\none\ntwo\n```"]
    assert texts(ended) == [*texts(second), "exit code 2"]
    assert ended["rawOutput"]["exitCode"] == 2
    assert "_meta" not in ended
    assert result == {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}


async def test_command_output_in_a_terminal() -> None:
    async with screen(terminals=True) as shown:
        (begun,) = await shown.show(BEGUN)
        pieces = await shown.show(OutputStreamed(CALL, "stdout", "one\n"), OutputStreamed(CALL, "stdout", "two\n"))
        ended, result = await shown.show(ENDED, RESULT)
    assert begun["content"] == [TERMINAL]
    assert begun["_meta"] == {"terminal_info": {"terminal_id": "c", "cwd": "/w/src"}}
    assert [piece["_meta"]["terminal_output"] for piece in pieces] == [
        {"terminal_id": "c", "data": "one\n"},
        {"terminal_id": "c", "data": "two\n"},
    ]
    assert ended["_meta"] == {"terminal_exit": {"terminal_id": "c", "exit_code": 2, "signal": None}}
    assert all("content" not in update for update in (*pieces, ended, result))


async def test_replayed_terminal_takes_two_messages() -> None:
    log = stamped(BEGUN, ENDED, RESULT)
    begun, filled = replayed(log, LoggedFacts(events=log), Shown(terminals=True))
    assert (begun["sessionUpdate"], begun["content"], begun["status"]) == ("tool_call", [TERMINAL], "in_progress")
    assert set(begun["_meta"]) == {"terminal_info"}
    assert (filled["sessionUpdate"], filled["status"]) == ("tool_call_update", "completed")
    assert filled["_meta"] == {
        "terminal_output": {"terminal_id": "c", "data": "one\ntwo"},
        "terminal_exit": {"terminal_id": "c", "exit_code": 2, "signal": None},
    }


@pytest.mark.parametrize("terminals", [False, True], ids=["texts", "terminals"])
async def test_load_during_a_command_shows_its_output(terminals: bool) -> None:
    async with screen(terminals=terminals) as shown:
        await shown.show(*(log := stamped(BEGUN)))
        await shown.show(OutputStreamed(CALL, "stdout", "one\n"), OutputStreamed(CALL, "stdout", "two"))
        again = await shown.replay(log)
        call = transcript(again)["calls"]["c"]
        if terminals:
            assert call["_meta"]["terminal_output"]["data"] == "one\ntwo"
        else:
            assert texts(call)[-1] == "```\none\ntwo\n```"
        after = await shown.show(OutputStreamed(CALL, "stdout", "!"), *stamped(BEGUN, ENDED, RESULT)[1:])
    assert transcript([*again, *after])["calls"]["c"]["status"] == "completed"


async def test_no_command_output_after_its_end() -> None:
    for terminals in (False, True):
        async with screen(terminals=terminals) as shown:
            await shown.show(BEGUN, ENDED)
            assert await shown.show(OutputStreamed(CALL, "stdout", "late")) == []
            await shown.show(RESULT)
            assert await shown.show(OutputStreamed(CALL, "stdout", "later")) == []


async def test_command_output_is_freed_at_its_end() -> None:
    streams = Streams()
    for call in (CALL, ToolCallId("d")):
        streams.printed(OutputStreamed(call, "stdout", "one\n"))
    streams.end(ENDED)
    assert [call for call, _ in streams.output] == ["d"]


async def test_terminal_output_is_cut_and_counted() -> None:
    async with screen(terminals=True) as shown:
        await shown.show(BEGUN)
        (piece,) = await shown.show(OutputStreamed(CALL, "stdout", "x" * 1_000_000))
    data = piece["_meta"]["terminal_output"]["data"]
    assert TERMINAL_CHARS <= len(data) < TERMINAL_CHARS + 100
    assert f"{1_000_000 - TERMINAL_CHARS} characters left out" in data


def test_allowed_call_shows_its_content_again() -> None:
    asked = PermissionAnswered(tool_call_id=CALL, scope="", outcome="allowed", remembered=False)
    begun, allowed = updates_of(BEGUN, asked)
    assert (allowed["status"], allowed["content"]) == ("in_progress", begun["content"])
    begun, allowed = updates_of(BEGUN, asked, shown=Shown(terminals=True))
    assert (allowed["status"], allowed["content"]) == ("in_progress", [TERMINAL])


@pytest.mark.parametrize("terminals", [False, True])
def test_failed_command_shows_reason_and_output(terminals: bool) -> None:
    failed = ToolResult(tool_call_id=CALL, status="error", text="TimeoutError: it ran too long", parent_id=PARENT)
    (*_, end) = updates_of(BEGUN, ENDED, failed, shown=Shown(terminals=terminals))
    assert end["status"] == "failed"
    assert end["content"][-1]["content"]["text"] == "```\nTimeoutError: it ran too long\n```"
    assert (end["content"][0] == TERMINAL) is terminals
    (*_, never) = updates_of(BEGUN, failed, shown=Shown(terminals=terminals))
    assert never["content"][-1] == end["content"][-1]


def test_long_command_is_shown_above_its_terminal() -> None:
    lines = ToolCall(tool_call_id=CALL, tool="bash", arguments={"command": "cd src\nmake"}, parent_id=PARENT)
    (call,) = updates_of(lines, shown=Shown(terminals=True))
    assert call["content"][0]["content"]["text"] == "```sh\ncd src\nmake\n```"
    assert call["content"][1] == TERMINAL


@pytest.mark.parametrize(
    ("capabilities", "terminals"),
    [
        ({"_meta": {"terminal_output": True}}, True),
        ({"_meta": {"terminal_output": "yes"}}, False),
        ({"_meta": {}, "terminal": True}, False),
        ({"_meta": 7}, False),
        ({}, False),
        (None, False),
    ],
)
def test_terminal_capability_is_read(capabilities: object, terminals: bool) -> None:
    params = {"protocolVersion": 1, "clientCapabilities": capabilities}
    assert v1.read_params("initialize", params).terminals is terminals


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"code": 0}, "exit code 0"),
        ({"code": None, "signal": 9}, "ended by SIGKILL"),
        ({"code": None, "signal": 250}, "ended by signal 250"),
        ({"code": None, "signal": 15, "timed_out": True, "time_ms": 2500.0}, "ended at its time limit, after 2.5 s"),
    ],
)
def test_end_of_a_command_as_text(fields: dict[str, Any], said: str) -> None:
    (_, ended) = updates_of(BEGUN, CommandEnded(execution_id=ExecutionId("e"), tool_call_id=CALL, cwd="/w", **fields))
    assert texts(ended)[-2:] == ["(no output)", said]
