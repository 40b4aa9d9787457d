"""The table from events to updates: complete, and shaped as editors need it."""

from __future__ import annotations

import pytest

from acp_adapter.pump import merged
from acp_adapter.updates import LIVE_OUTPUT_CHARS, Updates
from acp_adapter.wire.model import to_wire
from engine.events import EVENTS, Event
from engine.events.conversation import (
    AgentText,
    Condensation,
    CondensationRequest,
    NoCutPossible,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from engine.events.nodes import FileChanged, NodeChanged
from engine.events.session import PromptQueued
from engine.execution import Captured
from engine.ids import EventId, ExecutionId, MessageId, ObjId, StatementId, ToolCallId
from engine.sessions.signals import OutputStreamed, ReasoningStreamed, Signal, TextStreamed

M, N = MessageId("m"), MessageId("n")
CALL = ToolCallId("c")
RECORDED = StatementRecorded(statement_id=StatementId("s"), index=3, source="x = 1\ny = 2", tool_call_id=CALL)
STARTED = ExecutionStarted(execution_id=ExecutionId("e"), statement_id=StatementId("s"))


def sent(updates: Updates, *items: Event | Signal) -> list[dict[str, object]]:
    return [to_wire(update) for item in items for update in updates.live(item)]


def finished(text: str, status: str = "ok") -> ExecutionFinished:
    return ExecutionFinished(
        execution_id=ExecutionId("e"),
        statement_id=StatementId("s"),
        status=status,
        started_at=0,
        ended_at=1,
        stdout=Captured(text=text, total_bytes=len(text)),
    )


def test_every_kind_of_event_has_a_row() -> None:
    from acp_adapter.updates import _ROWS

    assert set(_ROWS) == set(EVENTS)


def test_a_streamed_message_is_not_sent_again_when_it_is_whole_but_is_when_replayed() -> None:
    whole = AgentText(message_id=M, text="ab")
    assert [update["content"] for update in sent(Updates("/w"), TextStreamed(M, "ab"), whole)] == [
        {"type": "text", "text": "ab"}
    ]
    (chunk,) = Updates("/w").replayed(whole)
    assert to_wire(chunk)["content"] == {"type": "text", "text": "ab"}
    assert Updates("/w").live(UserMessage(message_id=N, text="x")) == []
    (echo,) = Updates("/w").replayed(UserMessage(message_id=N, text="x"))
    assert to_wire(echo)["sessionUpdate"] == "user_message_chunk"


def test_a_statement_goes_from_pending_to_in_progress_to_its_end_under_one_id() -> None:
    made = sent(Updates("/w"), RECORDED, STARTED, finished("out"))
    assert [(update["toolCallId"], update["status"]) for update in made] == [
        ("c", "pending"),
        ("c", "in_progress"),
        ("c", "completed"),
    ]
    assert made[0]["title"] == "x = 1"
    assert made[0]["rawInput"] == {"source": "x = 1\ny = 2", "statement": 3}


@pytest.mark.parametrize("status", ["error", "timeout", "cancelled"])
def test_whatever_went_wrong_is_a_failed_call(status: str) -> None:
    assert sent(Updates("/w"), RECORDED, STARTED, finished("", status))[-1]["status"] == "failed"


@pytest.mark.parametrize("text", ["plain", "```\nfenced\n```", "a `````` b", "# not a heading"])
def test_output_is_fenced_so_that_no_text_breaks_out(text: str) -> None:
    block = sent(Updates("/w"), RECORDED, finished(text))[-1]["content"][0]["content"]["text"]
    fence = block.split("\n", 1)[0]
    assert set(fence) == {"`"}
    assert block == f"{fence}\n{text}\n{fence}"
    assert fence not in text


def test_what_is_printed_meanwhile_is_accumulated_and_bounded() -> None:
    updates = Updates("/w")
    sent(updates, RECORDED, STARTED)
    first = sent(updates, OutputStreamed(CALL, "stdout", "a"), OutputStreamed(CALL, "stderr", "b"))[-1]
    assert first["content"][0]["content"]["text"] == "```\nab\n```"
    long = sent(updates, OutputStreamed(CALL, "stdout", "x" * 10_000))[-1]
    assert len(long["content"][0]["content"]["text"]) == LIVE_OUTPUT_CHARS + 8


def test_the_models_own_call_is_left_to_its_statement_and_a_helpers_call_is_shown_with_its_place() -> None:
    own = ToolCall(tool_call_id=CALL, tool="python", arguments={"source": "1"})
    helper = ToolCall(tool_call_id=ToolCallId("d"), tool="read", arguments={"path": "a.py"}, parent_id=CALL)
    (shown,) = sent(Updates("/w"), own, helper)
    assert (shown["kind"], shown["title"], shown["locations"]) == ("read", "read a.py", [{"path": "/w/a.py"}])


def test_a_changed_file_is_announced_once_and_gets_the_nodes_diff() -> None:
    changed = FileChanged(path="/w/a.py", change="modified", delta="1 line changed in a.py")
    node = NodeChanged(obj_id=ObjId("view-1"), obj_type="view", delta="1 line changed in a.py\n+new")
    other = NodeChanged(obj_id=ObjId("view-2"), obj_type="view", delta="moved")
    made = sent(Updates("/w"), changed, node, other)
    assert [update["sessionUpdate"] for update in made] == ["tool_call", "tool_call_update"]
    assert made[0]["title"] == "modified: a.py"
    assert "+new" in made[1]["content"][0]["content"]["text"]


def test_adjacent_pieces_of_one_stream_are_joined_and_nothing_else_is() -> None:
    whole = AgentText(message_id=M, text="abc")
    batch = [
        TextStreamed(M, "a"),
        TextStreamed(M, "b"),
        ReasoningStreamed(M, "r"),
        TextStreamed(M, "c"),
        TextStreamed(N, "d"),
        whole,
        TextStreamed(N, "e"),
        OutputStreamed(CALL, "stdout", "1"),
        OutputStreamed(CALL, "stdout", "2"),
        OutputStreamed(CALL, "stderr", "3"),
    ]
    assert merged(batch) == [
        TextStreamed(M, "ab"),
        ReasoningStreamed(M, "r"),
        TextStreamed(M, "c"),
        TextStreamed(N, "d"),
        whole,
        TextStreamed(N, "e"),
        OutputStreamed(CALL, "stdout", "12"),
        OutputStreamed(CALL, "stderr", "3"),
    ]


def test_a_condensation_is_one_call_from_its_request_to_its_summary() -> None:
    updates = Updates("/w")
    began, ended, nothing = sent(
        updates,
        CondensationRequest(event_id=EventId("e1"), reason="budget"),
        CondensationRequest(event_id=EventId("e2")),
        Condensation(forgotten=()),
        Condensation(forgotten=(EventId("e0"),), summary="It went well.", summary_offset=0),
        Condensation(forgotten=(EventId("e3"),), summary="Elsewhere.", summary_offset=0),
        RunStop(reason="completed", cause="end_turn"),
    )
    assert (began["toolCallId"], began["kind"], began["status"]) == ("condense_e1", "think", "in_progress")
    assert (ended["toolCallId"], ended["status"]) == ("condense_e1", "completed")
    assert "It went well." in str(ended["content"])
    assert nothing["sessionUpdate"] == "session_info_update"


@pytest.mark.parametrize(
    "end", [NoCutPossible(tokens=7_000), RunStop(reason="interrupted", cause="cancelled")], ids=lambda end: end.kind
)
def test_a_condensation_that_does_not_come_about_is_a_failed_call(end: Event) -> None:
    _, ended = sent(Updates("/w"), CondensationRequest(event_id=EventId("e1")), end)[:2]
    assert (ended["toolCallId"], ended["status"]) == ("condense_e1", "failed")


def test_the_end_of_a_run_says_when_and_which_request_cycle_it_was() -> None:
    updates = Updates("/w")
    stop = RunStop(at=0.0, reason="completed", cause="end_turn")
    assert sent(updates, stop) == [
        {"sessionUpdate": "session_info_update", "updatedAt": "1970-01-01T00:00:00+00:00"},
    ]
    update = sent(
        updates,
        UserMessage(message_id=M, text="go"),
        AgentText(message_id=N, text="Done."),
        PromptQueued(message_id=MessageId("q"), text="next"),
        stop,
    )[-1]
    assert update["_meta"] == {
        "rewindow": {
            "cycle": {"number": 1, "root": "direct", "stop": "completed", "rounds": 1, "steps": 2, "queued": 1}
        }
    }
    assert "title" not in update


def test_a_call_of_another_program_is_shown_with_its_result() -> None:
    call = ToolCall(tool_call_id=CALL, tool="grep", arguments={"pattern": "x", "path": "a.py"})
    result = ToolResult(tool_call_id=CALL, status="error", text="no match")
    updates = Updates("/w")
    assert sent(updates, call) == []
    (update,) = sent(updates, result)
    assert (update["sessionUpdate"], update["title"], update["status"]) == ("tool_call", "grep a.py", "failed")
    assert "no match" in str(update["content"])
    assert update["rawInput"] == {"pattern": "x", "path": "a.py"}
    assert sent(updates, result) == []
