"""The deterministic summary: one line for what was asked, said and run, of the chosen entries alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.core.ids import EventId, MessageId, Seq, ToolCallId
from engine.log.cycles import cycles_of, summary_lines
from engine.log.cycles.views import LINE_CHARS
from engine.log.events import Event
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from tests.support.cycles import Vector, load_vectors


def stamped(*events: Event) -> list[Event]:
    return [replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}")) for seq, event in enumerate(events)]


def message(text: str, **fields: str) -> UserMessage:
    return UserMessage(message_id=MessageId(text), text=text, **fields)


def ran(name: str, source: str, status: str = "ok", text: str = "") -> tuple[ToolCall, ToolResult]:
    call = ToolCallId(name)
    result = ToolResult(tool_call_id=call, status=status, text=text)
    return ToolCall(tool_call_id=call, tool="python", arguments={"source": source}), result


LOG = stamped(
    message("first\n request"),
    AgentReasoning(message_id=MessageId("r"), text="not to be told"),
    AgentText(message_id=MessageId("t"), text="I look."),
    *ran("a", "v = view('a.py')"),
    message("also b", prompt_kind="steer"),
    *ran("b", "1 / 0", "error", "Traceback ...\nZeroDivisionError: division by zero\n"),
    *ran("c", "x = 1"),
    ToolCall(tool_call_id=ToolCallId("d"), tool="grep", arguments={"pattern": "x"}),
    ToolResult(tool_call_id=ToolCallId("d"), status="error", text="...\nno match\n"),
    RunStop(reason="completed", cause="end_turn"),
    message("second"),
    AgentText(message_id=MessageId("u"), text="x" * 1_000),
)


NUMBERS = {ToolCallId("a"): 1, ToolCallId("b"): 2, ToolCallId("c"): 3}


def test_each_step_is_a_line() -> None:
    lines = summary_lines(cycles_of(LOG), {event.event_id for event in LOG}, NUMBERS)
    assert lines[:-1] == (
        "The user asked: first request",
        "You said: I look.",
        "You ran statement 1.",
        "The user said meanwhile: also b",
        "You ran statements 2 to 3.",
        "You ran grep (error): {'pattern': 'x'} -> no match",
        "The user asked: second",
    )
    assert lines[-1].startswith("You said: xxx")
    assert lines[-1].endswith("x…")
    assert len(lines[-1]) <= LINE_CHARS + len("You said: ")


def test_only_the_chosen_entries_are_told() -> None:
    lines = summary_lines(cycles_of(LOG), {EventId("e3"), EventId("e4"), EventId("e13")}, NUMBERS)
    assert lines == ("You ran statement 1.", "The user asked: second")


@given(st.sampled_from(load_vectors()), st.data())
def test_any_part_of_any_log_gives_lines_without_line_breaks(vector: Vector, data: st.DataObject) -> None:
    ids = [event.event_id for event in vector.events]
    chosen = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    lines = summary_lines(cycles_of(vector.events), chosen, NUMBERS)
    assert all("\n" not in line for line in lines)
    assert summary_lines(cycles_of(vector.events), set(), NUMBERS) == ()
