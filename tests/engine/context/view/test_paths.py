"""The View of a path is whole, wherever the path was cut after a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from msgspec.structs import replace

from engine.context.view import View
from engine.context.view.entries import BoundaryRule
from engine.core.ids import MAIN_BRANCH, BranchId, EventId, LlmResponseId, MessageId, Seq, ToolCallId
from engine.log.branches import path_of
from engine.log.events import Event
from engine.log.events.conversation import RunStop, ThinkingBlock, ToolCall, ToolResult, UserMessage
from engine.log.events.going_back import BranchCreated, HeadMoved
from tests.engine.context.view.logs import difference, random_log

B1 = BranchId("b1")


def stamped(events: Sequence[Event], branch: BranchId = MAIN_BRANCH, start: int = 0) -> list[Event]:
    return [
        replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"), branch_id=branch)
        for seq, event in enumerate(events, start)
    ]


def thinking_loop(calls: int, thinks: int) -> list[Event]:
    """A run of so many calls, each with its result, of which every `thinks`th begins with thinking."""
    events: list[Event] = [UserMessage(message_id=MessageId("m"), text="go")]
    for number in range(calls):
        call = ToolCallId(f"c{number}")
        thinking = (ThinkingBlock(text="hm", signature="s"),) if number % thinks == 0 else ()
        response = LlmResponseId(f"r{number}")
        events.append(ToolCall(tool_call_id=call, tool="python", thinking=thinking, llm_response_id=response))
        events.append(ToolResult(tool_call_id=call, status="ok", text=str(number)))
    return stamped(events)


def branched(log: Sequence[Event], before: int) -> list[Event]:
    """The log, and a branch of it that shares what lies before that position and begins with the end of the run."""
    start = len(log)
    made = stamped([BranchCreated(branch=B1, parent=MAIN_BRANCH, before=Seq(before))], start=start)
    moved = [
        HeadMoved(branch=B1, left=MAIN_BRANCH, statement=0),
        RunStop(reason="interrupted", cause="cancelled"),
        UserMessage(message_id=MessageId("n"), text="on"),
    ]
    return [*log, *made, *stamped(moved, B1, start + 1)]


@pytest.mark.parametrize("rule", BoundaryRule)
@pytest.mark.parametrize("thinks", [1, 2, 3, 9])
def test_a_thinking_loop_cut_after_any_result_is_whole(thinks: int, rule: BoundaryRule) -> None:
    log = thinking_loop(6, thinks)
    for before in range(1, len(log) + 1, 2):
        view = View.from_events(path_of(branched(log, before)), rule)
        assert list(view.ready())[:-1] == log[:before]
        assert view.enforced().corrections == ()
        assert len(view) in view.indices


def ends(log: Sequence[Event]) -> Iterator[int]:
    """The positions behind results at which no call is open."""
    waiting: set[ToolCallId] = set()
    for event in log:
        if isinstance(event, ToolCall):
            waiting.add(event.tool_call_id)
        elif isinstance(event, ToolResult):
            waiting.discard(event.tool_call_id)
            if not waiting:
                yield event.seq + 1


@pytest.mark.parametrize("seed", range(20))
def test_every_reading_of_a_cut_path_equals_the_reference(seed: int) -> None:
    log = random_log(Random(seed), 60)
    for before in ends(log):
        assert difference(path_of(branched(log, before))) is None
