"""The JSON of request cycles, and their summary lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.cli.vectors import stamped
from engine.core.ids import EventId, MessageId, Seq, ToolCallId
from engine.log.cycles import cycles_of, summary_lines, to_json, to_plain
from engine.log.cycles.views import LINE_CHARS
from engine.log.events import Event
from engine.log.events.codec import decode
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tests.support.cycles import Vector, load_vectors

LOG = (
    '{"kind":"user_message","message_id":"m1","text":"tidy up","attachments":[{"uri":"file:///a.py","name":"a.py"}]}',
    '{"kind":"agent_reasoning","message_id":"t1","text":"hm","llm_response_id":"r1"}',
    '{"kind":"tool_call","tool_call_id":"p1","tool":"python","arguments":{"source":"ls()"},"llm_response_id":"r1"}',
    '{"kind":"tool_call","tool_call_id":"c1","tool":"ls","arguments":{"path":"."},"parent_id":"p1"}',
    '{"kind":"tool_result","tool_call_id":"c1","status":"ok","text":"a.py","parent_id":"p1"}',
    '{"kind":"prompt_queued","message_id":"m3","text":"then test"}',
    '{"kind":"prompt_queued","message_id":"m4","text":"never mind"}',
    '{"kind":"prompt_withdrawn","message_id":"m4"}',
    '{"kind":"tool_result","tool_call_id":"p1","status":"error","text":"boom"}',
    '{"kind":"user_message","message_id":"m2","text":"quick","prompt_kind":"steer"}',
    '{"kind":"agent_text","message_id":"t2","text":"done","llm_response_id":"r2"}',
    '{"kind":"run_stop","reason":"error","cause":"error","detail":"lost"}',
    '{"kind":"agent_text","message_id":"t3","text":"late"}',
)


def event_log(*lines: str) -> tuple[Event, ...]:
    return stamped([decode(line) for line in lines])


def user(kind: str, message_id: str, text: str, seq: int, *attachments: str) -> dict[str, Any]:
    return {
        "type": "user-message",
        "kind": kind,
        "messageId": message_id,
        "text": text,
        "attachments": list(attachments),
        "seq": seq,
    }


def said(item: str, message_id: str, text: str, seq: int) -> dict[str, Any]:
    return {"type": "agent-output", "item": item, "messageId": message_id, "text": text, "seq": seq}


def test_the_whole_model_as_json() -> None:
    root = user("direct", "m1", "tidy up", 0, "file:///a.py")
    statement = {
        "type": "agent-output",
        "item": "tool-call",
        "toolCallId": "p1",
        "tool": "python",
        "arguments": {"source": "ls()"},
        "parentId": None,
        "seq": 2,
        "result": {"type": "tool-result", "status": "error", "text": "boom", "seq": 8},
    }
    child = {
        "type": "agent-output",
        "item": "tool-call",
        "toolCallId": "c1",
        "tool": "ls",
        "arguments": {"path": "."},
        "parentId": "p1",
        "seq": 3,
        "result": {"type": "tool-result", "status": "ok", "text": "a.py", "seq": 4},
    }
    groups = [{"type": "read-group", "calls": [child]}]
    reasoning, text = said("reasoning", "t1", "hm", 1), said("assistant", "t2", "done", 10)
    assert json.loads(to_json(cycles_of(event_log(*LOG)))) == {
        "schema": "request-cycles/1",
        "state": "idle",
        "cycles": [
            {
                "cycle": 1,
                "root": root,
                "stop": {"type": "run-stop", "reason": "error", "cause": "error", "detail": "lost", "seq": 11},
                "steps": [
                    {"type": "non-steer", "message": root},
                    {"type": "ai-block", "text": reasoning, "statements": [statement], "groups": groups},
                    {"type": "steer", "message": user("steer", "m2", "quick", 9)},
                    {"type": "ai-block", "text": text, "statements": [], "groups": []},
                ],
                "rounds": [
                    {
                        "round": 1,
                        "responseId": "r1",
                        "input": [{"type": "user-message", "kind": "direct", "messageId": "m1"}],
                        "output": [
                            {"type": "agent-output", "item": "reasoning", "messageId": "t1"},
                            {"type": "agent-output", "item": "tool-call", "toolCallId": "p1"},
                        ],
                    },
                    {
                        "round": 2,
                        "responseId": "r2",
                        "input": [
                            {"type": "tool-result", "toolCallId": "p1"},
                            {"type": "user-message", "kind": "steer", "messageId": "m2"},
                        ],
                        "output": [{"type": "agent-output", "item": "assistant", "messageId": "t2"}],
                    },
                ],
                "unread": [],
            }
        ],
        "queue": [{"type": "user-message", "kind": "followUp", "messageId": "m3", "text": "then test"}],
        "withdrawn": [{"messageId": "m4", "text": "never mind"}],
        "strays": [said("assistant", "t3", "late", 12)],
        "anomalies": [{"type": "output-while-idle", "seq": 12, "subject": "t3"}],
    }


def test_a_stray_result_says_which_call_it_answers() -> None:
    model = cycles_of(event_log('{"kind":"tool_result","tool_call_id":"c9","status":"ok","text":"x"}'))
    assert to_plain(model)["strays"] == [
        {"type": "tool-result", "status": "ok", "text": "x", "seq": 0, "toolCallId": "c9"}
    ]


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("\ufeffbom", "\ufeffbom"),
        (2**62, 2**62),
        (2**64 - 1, 2**64 - 1),
        (1 << 64, "int:18446744073709551616"),
        (1 << 20_000, f"int:{1 << 20_000:#x}"),
        (float("nan"), "float:nan"),
        (float("-inf"), "float:-inf"),
        ({1, 2}, "<set>"),
        (b"x", "<bytes>"),
        ({"b": 1, "a": (None, True)}, {"a": [None, True], "b": 1}),
        ({key: {key: 1} for key in ("\ud801", "\ud800", 3)}, {"<int>": {"<int>": 1}, "\ufffd": {"\ufffd": 1}}),
        (nested(2), [[[]]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_replaced(value: object, shown: object) -> None:
    call = ToolCall(tool_call_id=ToolCallId("c1"), tool="ls", arguments={"value": value})
    assert json.loads(to_json(cycles_of([call])))["strays"][0]["arguments"] == {"value": shown}


def test_depth_is_bounded_also_for_what_holds_itself() -> None:
    itself: list[object] = []
    itself.append(itself)
    for value in (itself, nested(5_000)):
        call = ToolCall(tool_call_id=ToolCallId("c1"), tool="ls", arguments={"value": value})
        assert b"<list>" in to_json(cycles_of([call]))


def test_lone_surrogates_are_replaced_wherever_text_is_shown() -> None:
    lone = r"\ud800"
    clean = event_log(*(line.replace('"text":"', '"text":"@').replace("file:///", "file:///@") for line in LOG))
    dirty = [_with(event, "@", "\ud800") for event in clean]
    shown = json.loads(to_json(cycles_of(dirty)))

    assert shown["cycles"][0]["root"]["text"] == "\ufffdtidy up"
    assert shown["cycles"][0]["root"]["attachments"] == ["file:///\ufffda.py"]
    assert lone not in json.dumps(shown)


def _with(event: Event, old: str, new: str) -> Event:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = value.replace(old, new)
        elif name == "attachments":
            fields[name] = tuple(
                Attachment(uri=each.uri.replace(old, new), name=each.name.replace(old, new)) for each in value
            )
    return type(event)(**fields)


def stamped_events(*events: Event) -> list[Event]:
    return [replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}")) for seq, event in enumerate(events)]


def message(text: str, **fields: str) -> UserMessage:
    return UserMessage(message_id=MessageId(text), text=text, **fields)


def ran(name: str, source: str, status: str = "ok", text: str = "") -> tuple[ToolCall, ToolResult]:
    call = ToolCallId(name)
    result = ToolResult(tool_call_id=call, status=status, text=text)
    return ToolCall(tool_call_id=call, tool="python", arguments={"source": source}), result


SUMMARY_LOG = stamped_events(
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
    lines = summary_lines(cycles_of(SUMMARY_LOG), {event.event_id for event in SUMMARY_LOG}, NUMBERS)
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
    lines = summary_lines(cycles_of(SUMMARY_LOG), {EventId("e3"), EventId("e4"), EventId("e13")}, NUMBERS)
    assert lines == ("You ran statement 1.", "The user asked: second")


@given(st.sampled_from(load_vectors()), st.data())
def test_any_part_of_any_log_gives_lines_without_line_breaks(vector: Vector, data: st.DataObject) -> None:
    ids = [event.event_id for event in vector.events]
    chosen = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    lines = summary_lines(cycles_of(vector.events), chosen, NUMBERS)
    assert all("\n" not in line for line in lines)
    assert summary_lines(cycles_of(vector.events), set(), NUMBERS) == ()
