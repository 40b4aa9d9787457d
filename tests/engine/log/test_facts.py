"""Facts of a session: who wrote statements, and what a fork inherits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from engine.core.ids import MAIN_BRANCH, BranchId, EventId, Seq, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import ToolCall
from engine.log.events.execution import StatementRecorded
from engine.log.events.going_back import BranchCreated, HeadMoved
from engine.log.events.session import OthersWrote
from engine.log.facts import SessionFacts
from engine.session.reopening import forked


def call(number: int, *, typed: bool = False, parent: int | None = None) -> ToolCall:
    parent_id = None if parent is None else ToolCallId(f"c{parent}")
    return ToolCall(tool_call_id=ToolCallId(f"c{number}"), tool="python", typed=typed, parent_id=parent_id)


def statement(number: int) -> StatementRecorded:
    call_id = ToolCallId(f"c{number}")
    return StatementRecorded(statement_id=StatementId(f"s{number}"), index=1, source="1", tool_call_id=call_id)


def log_of(*events: Event) -> list[Event]:
    return [replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}")) for seq, event in enumerate(events)]


def facts_of(events: Sequence[Event]) -> SessionFacts:
    facts = SessionFacts()
    for event in events:
        facts.apply(event)
    return facts


@pytest.mark.parametrize(
    ("events", "is_foreign"),
    [
        ([call(1, typed=True), statement(1)], False),
        ([statement(1)], False),
        ([call(1), statement(1)], True),
        ([call(1)], False),
        ([call(1, typed=True), statement(1), call(2, parent=1)], False),
        ([call(1), call(2, typed=True), statement(2)], False),
        ([call(1), call(2, typed=True), statement(2), statement(1)], True),
        ([OthersWrote(by="client")], True),
        ([OthersWrote(by="model")], True),
        ([OthersWrote(by="import")], True),
    ],
)
def test_what_a_model_or_a_client_wrote_makes_it_foreign(events: list[Event], is_foreign: bool) -> None:
    assert facts_of(log_of(*events)).is_foreign == is_foreign


def test_an_import_has_all_before_it_come_from_elsewhere() -> None:
    events = log_of(statement(1), OthersWrote(by="import"), OthersWrote(by="model"))
    assert facts_of(events).imported_at == 1
    assert facts_of(events[:1]).imported_at == -1


def test_a_fork_takes_along_that_others_wrote_on_another_branch() -> None:
    other = BranchId("b1")
    events = log_of(
        call(1, typed=True),
        statement(1),
        BranchCreated(branch=other, parent=MAIN_BRANCH, before=Seq(2)),
        HeadMoved(branch=other, left=MAIN_BRANCH, branch_id=other, statement=1),
        OthersWrote(by="model", branch_id=other),
        HeadMoved(branch=MAIN_BRANCH, left=other, statement=1),
    )
    assert facts_of(forked(events)).is_foreign
