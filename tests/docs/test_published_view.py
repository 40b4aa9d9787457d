"""The examples of two published documents about the View run as written.

"View" shows events as `[E0, A1, A2, E3, A4]`: E a message, A an action, O an observation. "Incremental view
construction and conversation state view property" shows calls of `View`. The page `docs/published-documents.md` has the
words that differ.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.context.model import ModelSignal, Prompt, TextDelta
from engine.context.view import BoundaryRule, View
from engine.context.view.properties import (
    PROPERTIES,
    BatchAtomicityProperty,
    Property,
    ToolCallMatchingProperty,
    ToolLoopAtomicityProperty,
)
from engine.core.ids import Seq
from engine.log.events.session import TitleChanged
from tests.engine.context.view.rows import condensation, log_of
from tests.support.models import AnsweringModel
from tests.support.sessions import in_process, session_in
from tests.support.view_reference import ids

LOOP = "m0 a1:b1:t1+ o1:t1 a2:b2:t2 m3"


def published(words: str, *properties: type[Property]) -> View:
    """A View by the published rule, with all properties unless some are named."""
    view = View(BoundaryRule.POSITIONS, properties or PROPERTIES)
    for event in log_of(words):
        view.add_event(event)
    return view


# --- "View" -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [(BatchAtomicityProperty,), ()], ids=["alone", "all"])
def test_batch_example_has_indices_outside_the_batch(properties: tuple[type[Property], ...]) -> None:
    """Events: [E0, A1, A2, E3, A4], A1 and A2 share llm_response_id='batch1'. Indices: {0, 3, 5}."""
    view = published("m0 a1:batch1:t1 a2:batch1:t2 m3 a4:batch2:t4", *properties)
    assert set(view.manipulation_indices) == {0, 3, 5}
    assert view.batches == {"batch1": (1, 2), "batch2": (4,)}
    assert view.batch_ranges[0] == (1, 2, False)


@pytest.mark.parametrize("properties", [(ToolLoopAtomicityProperty,), ()], ids=["alone", "all"])
def test_tool_loop_example_has_indices_outside_the_loop(properties: tuple[type[Property], ...]) -> None:
    """Events: [E0, A1(thinking), O1, A2, E3]. Tool loop: [1, 3]. Indices: {0, 4, 5}."""
    view = published(LOOP, *properties)
    assert view.tool_loop_ranges == ((1, 3),)
    assert set(view.manipulation_indices) == {0, 4, 5}
    assert view.batch_ranges == ((1, 1, True), (3, 3, False))


@pytest.mark.parametrize("properties", [(ToolCallMatchingProperty,), ()], ids=["alone", "all"])
def test_matching_example_leaves_out_the_unanswered_call(properties: tuple[type[Property], ...]) -> None:
    """Events: [A1(tc_1), O1(tc_1), A2(tc_2)]. A2 has no matching observation. Result: [A1(tc_1), O1(tc_1)]."""
    view = published("a1:b1:tc_1 o1:tc_1 a2:b2:tc_2", *properties)
    assert (view.action_tool_call_ids, view.observation_tool_call_ids) == ({"tc_1", "tc_2"}, {"tc_1"})
    view.enforce_properties()
    assert ids(view.events) == ("a1", "o1")


def test_matching_closes_no_index() -> None:
    """Returns `set(range(len(events) + 1))`."""
    view = published("a1:b1:tc_1 o1:tc_1 a2:b2:tc_2", ToolCallMatchingProperty)
    assert set(view.manipulation_indices) == set(range(len(view.events) + 1))


def test_final_indices_are_the_intersection_of_all_properties() -> None:
    words = "m0 a1:batch1:t1 a2:batch1:t2 o1:t1 o2:t2 m3 a4:b2:t4+ o4:t4 a5:b3:t5 m6"
    each = [set(published(words, kind).manipulation_indices) for kind in PROPERTIES]
    assert set(published(words).manipulation_indices) == set.intersection(*each)


def test_removal_of_one_action_removes_its_batch() -> None:
    """When any ActionEvent in a batch is marked for removal, all others of that batch are removed."""
    view = published("m0 a1:batch1:t1 a2:batch1:t2 o1:t1 o2:t2 m3")
    view.add_event(condensation("a1", seq=6))
    view.enforce_properties()
    assert ids(view.events) == ("m0", "m3")


# --- "Incremental view construction and conversation state view property" ---------------------------------------------


def test_events_added_one_at_a_time_are_the_view_of_the_list() -> None:
    events = [*log_of("m0 a1:b1:t1 o1:t1 r1 m2"), condensation("m0", seq=5, summary="greetings", at=0)]
    view = View()
    for number, event in enumerate(events, 1):
        view.add_event(event)
        rebuilt = View.from_events(events[:number])
        assert (view.events, view.manipulation_indices) == (rebuilt.events, rebuilt.manipulation_indices)
        assert view.unhandled_condensation_request is (number in (4, 5))


def test_add_event_skips_non_llm_convertible() -> None:
    """view = View(); view.add_event(ConversationStateUpdateEvent(...)); assert len(view.events) == 0."""
    view = View()
    view.add_event(TitleChanged(seq=Seq(0), title="a change of state"))
    assert len(view.events) == 0


def test_properties_are_enforced_in_place_until_stable() -> None:
    # The orphan takes its batch with it, and that leaves another orphan: two passes of the published loop.
    events = log_of("m0 a1:b1:t1 a2:b1:t2 o2:t2 m3")
    view = View.from_events(events)
    corrections = view.enforce_properties(events)
    assert ids(view.events) == ("m0", "m3")
    assert view.manipulation_indices == (0, 1, 2)
    assert {each.property_name for each in corrections} <= {kind.name for kind in PROPERTIES}
    assert sum(each.count for each in corrections) == 3
    assert view.enforce_properties(events) == ()


def test_indices_are_current_after_each_way_to_change_a_view() -> None:
    view = View.from_events(log_of("m0 m1 a2:b1:t2"))
    assert view.manipulation_indices == (0, 1, 2)
    (added,) = log_of("o2:t2", start=3)
    view.add_event(added)
    assert view.manipulation_indices == (0, 1, 2, 4)
    view.add_event(condensation("m0", seq=4))
    assert view.manipulation_indices == (0, 1, 3)
    (orphan,) = log_of("a5:b2:t5", start=5)
    view.add_event(orphan)
    assert view.manipulation_indices == (0, 1, 3)
    view.enforce_properties()
    assert view.manipulation_indices == (0, 1, 3)


def test_condensations_are_no_field_of_a_view() -> None:
    """View.condensations field removed."""
    assert not hasattr(View(), "condensations")


@pytest.mark.anyio
async def test_session_view_is_what_is_sent_and_no_event_bypasses_it(tmp_path: Path) -> None:
    """`state.events.append(e)`, which would leave the view behind, is impossible; `state.view` is what is sent."""

    def answer(prompt: Prompt) -> list[ModelSignal]:
        del prompt
        return [TextDelta("Yes.")]

    model = AnsweringModel(answer)
    async with session_in(tmp_path, model=model, environments=in_process) as session:
        await session.accept("first").end()
        read = session.view.events
        await session.accept("second").end()
        assert not hasattr(session.events, "append")
        assert not isinstance(session.view.events, list)
        assert ids(model.prompts[-1].messages) == ids(session.view.events[:-1])
        assert session.view.events[: len(read)] == read


def test_bad_condensation_is_healed_at_once_in_an_enforcing_view() -> None:
    """One malformed condensation cannot corrupt the view for the rest of the process."""
    view = View(enforcing=True)
    for event in log_of("m0 a1:b1:t1 o1:t1 m2"):
        view.add_event(event)
    assert view.add_event(condensation("o1", seq=4))
    assert ids(view.events) == ("m0", "m2")
    view.add_event(log_of("m5", start=5)[0])
    assert ids(view.events) == ids(view.ready()) == ("m0", "m2", "m5")
