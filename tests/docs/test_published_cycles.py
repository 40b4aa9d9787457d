"""The rules and sequences of "Request Cycle Model (Self-Contained)" hold as written, with its names in the JSON."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cli.vectors import stamped
from engine.core.ids import LlmResponseId, MessageId, ToolCallId
from engine.log.cycles import cycles_of, to_plain
from engine.log.events import Event
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    PromptKind,
    RunStop,
    RunStopReason,
    ToolCall,
    ToolResult,
    UserMessage,
)

REASONS: tuple[RunStopReason, ...] = ("completed", "interrupted", "error")
each_reason = pytest.mark.parametrize("reason", REASONS)


def model(*events: Event) -> dict[str, Any]:
    """The structured model of an ordered list of events."""
    return to_plain(cycles_of(stamped(events)))


def user(text: str, kind: PromptKind = "direct") -> Event:
    return UserMessage(message_id=MessageId(text), text=text, prompt_kind=kind)


def assistant(text: str) -> Event:
    return AgentText(message_id=MessageId(text), text=text)


def reasoning(text: str) -> Event:
    return AgentReasoning(message_id=MessageId(text), text=text)


def call(tool: str, response: str = "r1") -> Event:
    name = ToolCallId(f"{response} {tool}")
    return ToolCall(tool_call_id=name, tool=tool, llm_response_id=LlmResponseId(response))


def result(tool: str, response: str = "r1") -> Event:
    return ToolResult(tool_call_id=ToolCallId(f"{response} {tool}"), status="ok", text=f"result of {tool}")


def stop(reason: RunStopReason = "completed") -> Event:
    return RunStop(reason=reason, cause="end_turn")


def roots(shown: dict[str, Any]) -> list[tuple[str, str]]:
    """Kind and text of the root of each cycle."""
    return [(cycle["root"]["kind"], cycle["root"]["text"]) for cycle in shown["cycles"]]


def described(step: dict[str, Any]) -> str:
    """A step in a line: its type, its text, its groups."""
    if step["type"] != "ai-block":
        return f"{step['type']}: {step['message']['text']}"
    text = step["text"]
    head = "ai-block" if text is None else f"ai-block: {text['item']} {text['text']}"
    return " ".join(
        [head, *(f"{group['type']}{[each['tool'] for each in group['calls']]}" for group in step["groups"])]
    )


# --- sections 1 and 2 -------------------------------------------------------------------------------------------------


def test_each_event_has_one_of_the_published_types() -> None:
    shown = model(user("go"), reasoning("hm"), assistant("so"), call("ls"), result("ls"), stop())
    (cycle,) = shown["cycles"]
    (first, thought, said) = cycle["steps"]
    listed = said["groups"][0]["calls"][0]
    assert [first["message"]["type"], cycle["stop"]["type"], listed["result"]["type"]] == [
        "user-message", "run-stop", "tool-result",
    ]  # fmt: skip
    assert {each["type"] for each in (thought["text"], said["text"], listed)} == {"agent-output"}
    assert [each["item"] for each in (thought["text"], said["text"], listed)] == [
        "reasoning", "assistant", "tool-call",
    ]  # fmt: skip


@each_reason
def test_every_reason_closes_the_run_and_returns_to_idle(reason: RunStopReason) -> None:
    shown = model(user("go"), assistant("so"), stop(reason))
    assert shown["state"] == "idle"
    assert [cycle["stop"]["reason"] for cycle in shown["cycles"]] == [reason]


# --- sections 3 to 5 --------------------------------------------------------------------------------------------------


def test_message_while_idle_is_direct() -> None:
    assert roots(model(user("go"))) == [("direct", "go")]


def test_steer_is_feedback_in_the_run_and_no_root() -> None:
    shown = model(user("go"), assistant("so"), user("rather this", "steer"), assistant("yes"), stop())
    assert roots(shown) == [("direct", "go")]
    assert shown["queue"] == []
    assert [described(step) for step in shown["cycles"][0]["steps"]] == [
        "non-steer: go", "ai-block: assistant so", "steer: rather this", "ai-block: assistant yes",
    ]  # fmt: skip


def test_follow_up_waits_and_is_no_part_of_the_cycle() -> None:
    shown = model(user("go"), user("then this", "follow_up"), assistant("so"))
    assert [(each["kind"], each["text"]) for each in shown["queue"]] == [("followUp", "then this")]
    assert [described(step) for step in shown["cycles"][0]["steps"]] == ["non-steer: go", "ai-block: assistant so"]


@each_reason
def test_queued_follow_up_is_the_next_root_immediately(reason: RunStopReason) -> None:
    shown = model(user("go"), user("then this", "follow_up"), stop(reason))
    assert roots(shown) == [("direct", "go"), ("followUp", "then this")]
    assert (shown["state"], shown["queue"]) == ("active", [])


@each_reason
def test_cycle_ends_at_its_first_run_stop(reason: RunStopReason) -> None:
    shown = model(user("go"), assistant("so"), stop(reason), user("again"), assistant("yes"), stop())
    assert [[described(step) for step in cycle["steps"]] for cycle in shown["cycles"]] == [
        ["non-steer: go", "ai-block: assistant so"],
        ["non-steer: again", "ai-block: assistant yes"],
    ]


# --- section 6 --------------------------------------------------------------------------------------------------------


def test_inference_rounds_follow_the_model() -> None:
    """Input context, output, tool results and optional steer, repeated until run-stop."""
    shown = model(
        user("go"), call("ls"), result("ls"), user("quick", "steer"), call("read", "r2"), result("read", "r2"), stop()
    )
    inputs = [[item["type"] for item in each["input"]] for each in shown["cycles"][0]["rounds"]]
    outputs = [[item["item"] for item in each["output"]] for each in shown["cycles"][0]["rounds"]]
    assert inputs == [["user-message"], ["tool-result", "user-message"]]
    assert outputs == [["tool-call"], ["tool-call"]]


@pytest.mark.parametrize(
    ("group", "tools"),
    [
        ("read-group", ["ls", "read", "grep", "find"]),
        ("write-group", ["write", "edit"]),
        ("bash-group", ["bash"]),
        ("other-group", ["fetch", "think"]),
    ],
)
def test_adjacent_calls_of_one_kind_are_a_group(group: str, tools: list[str]) -> None:
    shown = model(user("go"), assistant("so"), *map(call, tools), *map(result, tools), stop())
    assert [described(step) for step in shown["cycles"][0]["steps"]] == [
        "non-steer: go", f"ai-block: assistant so {group}{tools}",
    ]  # fmt: skip


def test_block_has_exactly_one_text_and_results_are_no_steps() -> None:
    shown = model(
        user("go"), reasoning("hm"), assistant("one"), call("ls"), result("ls"), call("edit"), result("edit"),
        call("read"), result("read"), assistant("two"), stop(),
    )  # fmt: skip
    steps = shown["cycles"][0]["steps"]
    assert [described(step) for step in steps] == [
        "non-steer: go",
        "ai-block: reasoning hm",
        "ai-block: assistant one read-group['ls'] write-group['edit'] read-group['read']",
        "ai-block: assistant two",
    ]
    assert steps[2]["groups"][0]["calls"][0]["result"]["text"] == "result of ls"


# --- section 7 --------------------------------------------------------------------------------------------------------


def test_construction_step_by_step() -> None:
    events: list[Event] = []

    def after(*more: Event) -> dict[str, Any]:
        events.extend(more)
        return model(*events)

    # 1. Start in idle.
    assert (after()["state"], after()["cycles"]) == ("idle", [])
    # 2. A user message in idle: direct, opens a RequestCycle, moves to active.
    shown = after(user("go"))
    assert (shown["state"], roots(shown)) == ("active", [("direct", "go")])
    # 3. While active, messages are steer or followUp; output and tool activity belong to the cycle.
    shown = after(user("rather this", "steer"), user("then this", "follow_up"), assistant("so"), call("ls"))
    assert (shown["state"], len(shown["cycles"]), len(shown["queue"])) == ("active", 1, 1)
    assert [described(step) for step in shown["cycles"][0]["steps"]] == [
        "non-steer: go", "steer: rather this", "ai-block: assistant so read-group['ls']",
    ]  # fmt: skip
    # 4. and 5. A run-stop closes the cycle, and the queued followUp is the next root at once.
    shown = after(result("ls"), stop("interrupted"))
    assert shown["cycles"][0]["stop"]["reason"] == "interrupted"
    assert (shown["state"], roots(shown)[1:]) == ("active", [("followUp", "then this")])
    shown = after(stop())
    assert (shown["state"], shown["anomalies"]) == ("idle", [])
    # "With ordered events and guaranteed run-stop, this projection is deterministic."
    assert model(*events) == model(*events)
