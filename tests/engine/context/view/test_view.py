"""Entries of the View, and answers that later events do not change."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from engine.context.view import Summary, View
from engine.core.errors import InvalidEventError, NoManipulationIndexError
from engine.core.ids import EventId, LlmResponseId, MessageId, Seq, ToolCallId
from engine.log.events import EVENTS, Event
from engine.log.events.conversation import AgentReasoning, AgentText, ToolCall, ToolResult, UserMessage
from tests.engine.context.view.rows import condensation, log_of
from tests.support.view_reference import ids

ENTERING = {UserMessage, AgentText, AgentReasoning, ToolCall, ToolResult}


def _any_value(annotation: Any) -> Any:
    """Some value of an event field's type; only its presence matters here."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return None if type(None) in get_args(annotation) else _any_value(get_args(annotation)[0])
    if origin is tuple:
        return ()
    if origin is dict:
        return {}
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _any_of(annotation)
    if origin is not None:
        return get_args(annotation)[0]
    plain = getattr(annotation, "__supertype__", annotation)
    return {str: "s", int: 1, float: 1.0, bool: False}[plain]


def _any_of(kind: Any) -> Any:
    hints = get_type_hints(kind)
    required = [each for each in msgspec.structs.fields(kind) if each.required]
    return kind(**{each.name: _any_value(hints[each.name]) for each in required})


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.kind)
def test_only_what_a_model_can_read_enters(kind: type[Event]) -> None:
    event = msgspec.structs.replace(_any_of(kind), seq=Seq(0), event_id=EventId("e0"))
    view = View()
    view.append(event)

    assert view.events == ((event,) if kind in ENTERING else ())
    assert view.indices == ((0,) if kind is ToolCall else tuple(range(len(view) + 1)))


def test_a_call_inside_a_statement_and_its_result_stay_out() -> None:
    parent = ToolCallId("p")
    call = ToolCall(seq=Seq(0), tool_call_id=ToolCallId("c"), tool="read", parent_id=parent)
    result = ToolResult(seq=Seq(1), tool_call_id=ToolCallId("c"), status="ok", text="", parent_id=parent)
    view = View.from_events([call, result])

    assert view.events == ()
    assert view.indices == (0,)


@pytest.mark.parametrize("status", ["ok", "error", "rejected", "cancelled"])
def test_a_result_of_any_status_answers_its_call(status: Any) -> None:
    log = log_of("m0 a1:b1:t1")
    result = ToolResult(seq=Seq(2), event_id=EventId("o"), tool_call_id=ToolCallId("t1"), status=status, text="")
    view = View.from_events([*log, result])

    assert view.ready() == (*log, result)
    assert view.indices == (0, 1, 3)


def test_actions_without_a_response_are_batches_of_their_own() -> None:
    def call(number: int) -> ToolCall:
        name = f"t{number}"
        return ToolCall(seq=Seq(number), event_id=EventId(name), tool_call_id=ToolCallId(name), tool="python")

    def result(number: int, seq: int) -> ToolResult:
        return ToolResult(seq=Seq(seq), tool_call_id=ToolCallId(f"t{number}"), status="ok", text="")

    view = View.from_events([call(0), result(0, 1), call(2), result(2, 3)])

    assert view.indices == (0, 2, 4)
    assert view.batches == {"t0": (0,), "t2": (2,)}


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


def test_a_loop_range_ends_where_the_next_one_thinks() -> None:
    view = View.from_events(log_of("a1:b1:t1+ o1:t1 a2:b2:t2+ o2:t2 m3 a4:b4:t4+ o4:t4"))

    assert view.tool_loop_ranges == ((0, 1), (2, 3), (5, 6))


def test_answers_of_the_view_are_values() -> None:
    log = log_of("m0 a1:b1:t1 o1:t1 m2")
    view = View.from_events(log[:3])
    before = (view.events, view.ready(), view.indices, dict(view.batches), view.batch_ranges, view.tool_loop_ranges)
    view.append(log[3])

    assert before == (tuple(log[:3]), tuple(log[:3]), (0, 1, 3), {"b1": (1,)}, ((1, 1, False),), ())
    assert len(view) == 4


def test_since_returns_the_events_from_a_position() -> None:
    log = log_of("m0 a1:b1:t1 o1:t1 m2")
    view = View.from_events(log)

    assert [view.since(position) for position in range(6)] == [view.events[position:] for position in range(6)]


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
