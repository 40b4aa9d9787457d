"""Request cycles agree with the vectors, lose nothing of any log, and are the same however they were reached."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.vectors import OTHERS, PROMPT_KINDS, neutral, stamped
from engine.core import toolbox
from engine.core.ids import MessageId, StatementId, ToolCallId
from engine.log.cycles import CycleFold, Cycles, RequestCycle, cycles_of, rounds_of, steps_of, to_json, to_plain
from engine.log.cycles.machine import ANOMALIES, TRANSITIONS, Action, AnomalyKind, Input, State, Transition
from engine.log.cycles.views import GROUPS, AiBlock, Call
from engine.log.event_log import lookup_in
from engine.log.events import Event
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import StatementRecorded
from engine.log.events.session import PromptQueued, PromptWithdrawn
from tests.support.cycles import IN_CYCLES, Vector, load_vectors

VECTORS = load_vectors()
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


@by_name
def test_the_model_is_the_expected_one(vector: Vector) -> None:
    assert neutral(to_plain(cycles_of(vector.events))) == vector.expected


def test_every_state_has_a_transition_for_every_input() -> None:
    assert set(TRANSITIONS) == {(state, seen_as) for state in State for seen_as in Input}
    assert {transition.action for transition in TRANSITIONS.values()} == set(Action)


def test_the_vectors_take_every_transition_of_the_table() -> None:
    taken: set[tuple[State, Input]] = set()

    class Watched(dict[tuple[State, Input], Transition]):
        def __getitem__(self, key: tuple[State, Input]) -> Transition:
            taken.add(key)
            return super().__getitem__(key)

    for vector in VECTORS:
        fold = CycleFold(lookup_in(vector.events), Watched(TRANSITIONS))
        for event in vector.events:
            fold.apply(event)
    assert set(TRANSITIONS) - taken == set()


def test_every_anomaly_has_a_sentence_and_occurs_in_a_vector() -> None:
    occurring = {anomaly["type"] for vector in VECTORS for anomaly in vector.expected["anomalies"]}
    assert occurring == set(ANOMALIES) == set(get_args(AnomalyKind))


def test_every_tool_with_a_group_occurs_in_a_vector() -> None:
    tools = {getattr(event, "tool", None) for vector in VECTORS for event in vector.events}

    # The published model names no tool that was added later, and no operation that only code asks for.
    assert tools >= set(GROUPS) - set(toolbox.ROUTED) - set(toolbox.TOOLS)
    named = {GROUPS[tool] for tool in toolbox.TOOLS if tool in tools}
    assert named == {tool.group for tool in toolbox.TOOLS.values()} - {"other-group"}


MESSAGE_IDS = st.sampled_from(("", "m1", "m2", "m3", "m4"))
CALL_IDS = st.sampled_from(("c1", "c2", "c3", "c4"))
RESPONSES = st.sampled_from((None, "r1", "r2"))
TOOLS = st.sampled_from(("python", "python", "ls", "read", "edit", "bash", "web"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(
    ToolCall,
    tool_call_id=CALL_IDS,
    tool=TOOLS,
    arguments=st.dictionaries(st.text(max_size=3), VALUES, max_size=2),
    llm_response_id=RESPONSES,
    parent_id=st.none() | CALL_IDS,
)
EVENTS = st.one_of(
    st.builds(
        UserMessage,
        message_id=MESSAGE_IDS,
        text=st.text(max_size=3),
        prompt_kind=st.sampled_from(list(PROMPT_KINDS.values())),
    ),
    st.builds(AgentText, message_id=MESSAGE_IDS, text=st.text(max_size=3), llm_response_id=RESPONSES),
    st.builds(AgentReasoning, message_id=MESSAGE_IDS, text=st.text(max_size=3), llm_response_id=RESPONSES),
    CALLS,
    CALLS,
    st.builds(
        ToolResult,
        tool_call_id=CALL_IDS,
        status=st.sampled_from(("ok", "error", "rejected", "cancelled")),
        text=st.text(max_size=3),
    ),
    st.builds(RunStop, reason=st.sampled_from(("completed", "interrupted", "error")), cause=st.just("end_turn")),
    st.builds(PromptQueued, message_id=MESSAGE_IDS, text=st.text(max_size=3)),
    st.builds(PromptWithdrawn, message_id=MESSAGE_IDS),
    st.sampled_from(OTHERS),
)
LOGS = st.lists(EVENTS, max_size=40).map(stamped)


def seqs(events: Iterable[Event]) -> Counter[int]:
    return Counter(event.seq for event in events)


def calls_of(cycle: RequestCycle) -> list[Call]:
    blocks = [step for step in steps_of(cycle) if isinstance(step, AiBlock)]
    grouped = [call for block in blocks for group in block.groups for call in group.calls]
    return grouped + [call for block in blocks for call in block.statements]


@given(LOGS)
def test_live_equals_rebuilt_after_every_event(log: tuple[Event, ...]) -> None:
    live = CycleFold(lookup_in(log))
    for count, event in enumerate(log, 1):
        live.apply(event)
        assert live.model == cycles_of(log[:count])


@given(LOGS)
def test_json_is_the_same_after_storing(log: tuple[Event, ...]) -> None:
    clean = [event for event in log if not isinstance(event, ToolCall)]
    stored = [decode(encode(event)) for event in clean]
    assert to_json(cycles_of(stored)) == to_json(cycles_of(clean))
    assert to_json(cycles_of(log)) == to_json(cycles_of(log))
    json.loads(to_json(cycles_of(log)))


@given(LOGS)
def test_a_model_is_not_changed_by_what_comes_after_it(log: tuple[Event, ...]) -> None:
    live = CycleFold(lookup_in(log))
    seen: list[tuple[Cycles, bytes]] = []
    for event in log:
        live.apply(event)
        seen.append((live.model, to_json(live.model)))
    assert all(to_json(model) == before for model, before in seen)


@given(LOGS)
def test_kinds_without_a_part_in_cycles_change_nothing(log: tuple[Event, ...]) -> None:
    assert cycles_of(log) == cycles_of([event for event in log if isinstance(event, IN_CYCLES)])


@given(LOGS)
def test_every_output_is_in_a_cycle_or_stray(log: tuple[Event, ...]) -> None:
    model = cycles_of(log)
    kept = [item for cycle in model.cycles for item in (*cycle.items, *cycle.late)] + list(model.strays)
    outputs = (AgentText, AgentReasoning, ToolCall, ToolResult)
    assert seqs(item for item in kept if isinstance(item, outputs)) == seqs(e for e in log if isinstance(e, outputs))


@given(LOGS)
def test_every_user_message_has_one_place(log: tuple[Event, ...]) -> None:
    model = cycles_of(log)
    roots = [cycle.root for cycle in model.cycles]
    steers = [item for cycle in model.cycles for item in cycle.items if isinstance(item, UserMessage)]
    waiting = [each.message for each in model.queue if each.message is not None]
    placed = seqs([*roots, *steers, *waiting])
    messages = seqs(event for event in log if isinstance(event, UserMessage))
    missing = messages - placed
    assert placed <= messages
    withdrawn = Counter(each.message_id for each in model.withdrawn)
    assert Counter(event.message_id for event in log if event.seq in missing) <= withdrawn


@given(LOGS)
def test_cycles_are_numbered_and_only_the_last_may_be_open(log: tuple[Event, ...]) -> None:
    model = cycles_of(log)
    assert [cycle.number for cycle in model.cycles] == list(range(1, len(model.cycles) + 1))
    assert all(cycle.stop is not None for cycle in model.cycles[:-1])
    assert model.active == bool(model.cycles and model.cycles[-1].stop is None)


@given(LOGS)
def test_steps_hold_every_item_once_with_maximal_groups(log: tuple[Event, ...]) -> None:
    for cycle in cycles_of(log).cycles:
        steps = steps_of(cycle)
        blocks = [step for step in steps if isinstance(step, AiBlock)]
        calls = calls_of(cycle)
        texts = [block.text for block in blocks if block.text is not None]
        users = [step.message for step in steps if not isinstance(step, AiBlock)]
        results = [call.result for call in calls if call.result is not None]
        shown = [*users, *texts, *(call.call for call in calls), *results]
        assert seqs(shown) == seqs([cycle.root, *cycle.items, *cycle.late])
        assert all(call.result is None or call.result.tool_call_id == call.call.tool_call_id for call in calls)
        for block in blocks:
            names = [group.name for group in block.groups]
            assert all(left != right for left, right in pairwise(names))
            assert block.text is not None or block.groups or block.statements


@given(LOGS)
def test_statements_are_the_python_calls_with_children(log: tuple[Event, ...]) -> None:
    for cycle in cycles_of(log).cycles:
        newest: dict[str, ToolCall] = {}
        parents: set[int] = set()
        for item in cycle.items:
            if isinstance(item, ToolCall):
                parent = newest.get(item.parent_id or "")
                if parent is not None and parent.tool == "python":
                    parents.add(parent.seq)
                newest[item.tool_call_id] = item
        statements = [call for step in steps_of(cycle) if isinstance(step, AiBlock) for call in step.statements]
        assert {call.call.seq for call in statements} == parents


@given(LOGS)
def test_rounds_have_inputs_and_outputs_in_order(log: tuple[Event, ...]) -> None:
    for cycle in cycles_of(log).cycles:
        loop = rounds_of(cycle)
        served = [item.seq for each in loop.rounds for item in (*each.given, *each.output)]
        served += [item.seq for item in loop.unread]
        made = [e.seq for e in cycle.items if not (isinstance(e, ToolCall) and e.parent_id) and e.kind != "tool_result"]
        fed = [item for each in loop.rounds for item in each.given] + list(loop.unread)
        assert all(each.output for each in loop.rounds)
        assert len(served) == len(set(served))
        assert {cycle.root.seq, *made} <= set(served)
        assert [item.seq for item in fed] == sorted(item.seq for item in fed)


def test_statement_is_no_parent_in_later_cycles() -> None:
    call, stop = ToolCallId("of the cell"), RunStop(reason="completed", cause="end_turn")
    asked = [UserMessage(message_id=MessageId(name), text=name) for name in "ab"]
    statement = StatementRecorded(statement_id=StatementId("s"), index=1, source="1", tool_call_id=call)
    child = ToolCall(tool_call_id=ToolCallId("child"), tool="read", parent_id=call)
    within, behind = stamped([asked[0], statement, child]), stamped([asked[0], statement, stop, asked[1], child])
    assert cycles_of(within).anomalies == ()
    assert [each.kind for each in cycles_of(behind).anomalies] == ["unknown-parent"]
