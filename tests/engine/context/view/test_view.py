"""Entries of the View, and answers that later events do not change."""

from __future__ import annotations

import types

import pytest

from engine.context.view import Summary, View
from engine.core.errors import InvalidEventError, NoManipulationIndexError
from engine.core.ids import EventId, LlmResponseId, MessageId, Seq, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import AgentReasoning, AgentText, Condensation, ToolCall, ToolResult, UserMessage
from tests.engine.context.view.rows import condensation, log_of
from tests.support.rich_log import events_of, rich_items
from tests.support.view_reference import ids

ENTERING = {UserMessage, AgentText, AgentReasoning, ToolCall, ToolResult}


@pytest.mark.parametrize(
    "event",
    [each for each in events_of(rich_items()) if not isinstance(each, Condensation)],
    ids=lambda each: each.kind,
)
def test_only_what_a_model_can_read_enters(event: Event) -> None:
    view = View()
    view.append(event)
    is_inside = getattr(event, "aside", False) or getattr(event, "parent_id", None) is not None
    assert view.events == ((event,) if type(event) in ENTERING and not is_inside else ())
    assert view.indices == ((0,) if isinstance(event, ToolCall) else tuple(range(len(view) + 1)))


def test_a_call_inside_a_statement_and_its_result_stay_out() -> None:
    parent = ToolCallId("p")
    call = ToolCall(seq=Seq(0), tool_call_id=ToolCallId("c"), tool="read", parent_id=parent)
    result = ToolResult(seq=Seq(1), tool_call_id=ToolCallId("c"), status="ok", text="", parent_id=parent)
    view = View.from_events([call, result])
    assert view.events == ()
    assert view.indices == (0,)


def test_a_summary_comes_from_a_condensation_alone() -> None:
    view = View()
    view.append(Summary(seq=Seq(0), event_id=EventId("e0"), text="not on any log"))
    assert view.events == ()


def test_a_summary_has_its_condensations_text_and_stamp() -> None:
    log = [*log_of("m0 m1 m2"), condensation("m0 m1", seq=3, summary="greetings", at=0)]
    summary, last = View.from_events(log).events
    assert isinstance(summary, Summary)
    assert (summary.text, summary.event_id, summary.seq) == ("greetings", "c3-summary", 3)
    assert last.event_id == "m2"


def test_find_next_returns_the_smallest_index_from_a_threshold() -> None:
    view = View.from_events(log_of("m0 a1:b1:t1 o1:t1 m2"))
    assert [view.find_next(threshold) for threshold in (-1, 0, 1, 2, 3, 4)] == [0, 0, 1, 3, 3, 4]


def test_find_next_without_an_index_is_a_named_error() -> None:
    view = View.from_events(log_of("m0 a1:b1:t1 m2"))
    with pytest.raises(NoManipulationIndexError) as error:
        view.find_next(2)
    assert (error.value.threshold, error.value.length) == (2, 3)


def test_auxiliary_data_is_what_the_document_names() -> None:
    view = View.from_events(log_of("m0 a1:b1:t1+ a2:b1:t2 o1:t1 o2:t2 a3:b2:t3 o3:t3 m4 a5:b3:t5"))
    assert view.batches == {"b1": (1, 2), "b2": (5,), "b3": (8,)}
    assert view.batch_ranges == ((1, 2, True), (5, 5, False), (8, 8, False))
    assert view.tool_loop_ranges == ((1, 6),)
    assert view.action_tool_call_ids == {"t1", "t2", "t3", "t5"}
    assert view.observation_tool_call_ids == {"t1", "t2", "t3"}


def test_nobody_outside_can_change_the_view() -> None:
    view = View.from_events(log_of("m0 a1:b1:t1 o1:t1"))
    for name in ("events", "indices", "manipulation_indices", "batches", "unhandled_condensation_request", "rule"):
        with pytest.raises(AttributeError):
            setattr(view, name, ())
    with pytest.raises(AttributeError):
        view.anything = 1  # pyright: ignore[reportAttributeAccessIssue] -- it must fail
    with pytest.raises(TypeError):
        view.batches[LlmResponseId("b1")] = ()  # pyright: ignore[reportIndexIssue] -- it must fail
    assert all(isinstance(each, tuple | frozenset | types.MappingProxyType) for each in _answers(view))


def _answers(view: View) -> list[object]:
    return [
        view.events,
        view.ready(),
        view.indices,
        view.manipulation_indices,
        view.batches,
        view.batch_ranges,
        view.tool_loop_ranges,
        view.action_tool_call_ids,
        view.observation_tool_call_ids,
    ]


@pytest.mark.parametrize("seq", [-1, 0, 2])
def test_an_event_out_of_order_is_refused(seq: int) -> None:
    view = View.from_events(log_of("m0 m1 m2"))
    before = (view.events, view.indices)
    with pytest.raises(InvalidEventError):
        view.append(UserMessage(seq=Seq(seq), event_id=EventId("late"), message_id=MessageId("m"), text=""))
    assert (view.events, view.indices) == before


def test_positions_may_have_holes_because_a_branch_does() -> None:
    assert ids(View.from_events([*log_of("m0 m1"), *log_of("m9", start=9)]).events) == ("m0", "m1", "m9")


def test_a_request_is_unhandled_until_the_next_condensation() -> None:
    view = View.from_events(log_of("m0 r1"))
    assert view.unhandled_condensation_request
    view.append(condensation("", seq=2))
    assert not view.unhandled_condensation_request


def test_an_empty_view_can_be_cut_at_zero() -> None:
    assert (View().events, View().ready(), View().indices, View().find_next(0)) == ((), (), (0,), 0)
