"""Facts of a session: who wrote statements, and the rights of statements."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from engine.core.ids import MAIN_BRANCH, BranchId, EventId, Seq, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import ToolCall
from engine.log.events.execution import StatementRecorded
from engine.log.events.going_back import BranchCreated, HeadMoved
from engine.log.events.session import DomainEntered, OthersWrote, PermissionAnswered, PermissionOutcome, ProjectionSent
from engine.log.facts import Readings, SessionFacts
from engine.log.rights import LEAST, UNHELD, Domains, Rights
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


WORK = Rights(writable=("/work",))
ONLINE = Rights(network=True)


def entered(rights: Rights, statements: int = 0) -> DomainEntered:
    return DomainEntered(
        held=rights.held, writable=rights.writable, network=rights.network, bare=rights.bare, statements=statements
    )


def answered(seq: int, outcome: PermissionOutcome = "allowed") -> PermissionAnswered:
    return PermissionAnswered(tool_call_id=ToolCallId(f"domain-e{seq}"), scope="", outcome=outcome)


def test_places_that_statements_could_write_stay_known() -> None:
    events = log_of(
        entered(WORK), entered(UNHELD), OthersWrote(by="model", writable=("/left",)), entered(Rights(writable=("/a",)))
    )
    assert list(facts_of(events).writable) == ["/work", "/left", "/a"]


def folded(*events: Event) -> Domains:
    facts = SessionFacts()
    domains = Domains(facts)
    for seq, event in enumerate(events):
        stamped = replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"))
        facts.apply(stamped)
        if type(event) in Domains.FOLLOWS:
            domains.apply(stamped)
    return domains


@pytest.mark.parametrize(
    ("rights", "other", "is_within"),
    [
        (LEAST, LEAST, True),
        (LEAST, WORK, True),
        (WORK, LEAST, False),
        (WORK, Rights(writable=("/",)), True),
        (Rights(writable=("/work/sub",)), WORK, True),
        (Rights(bare=True), Rights(), False),
        (Rights(), Rights(bare=True), True),
        (Rights(bare=True), UNHELD, True),
        (Rights(writable=("/works",)), WORK, False),
        (Rights(writable=("/work", "/else")), WORK, False),
        (ONLINE, LEAST, False),
        (LEAST, ONLINE, True),
        (UNHELD, Rights(writable=("/",), network=True), False),
        (Rights(writable=("/",), network=True), UNHELD, True),
        (UNHELD, UNHELD, True),
    ],
)
def test_rights_are_within_others_that_allow_all_they_allow(rights: Rights, other: Rights, is_within: bool) -> None:
    assert rights.within(other) == is_within


def test_statements_before_the_first_domain_run_with_any_rights() -> None:
    domains = folded(*[answered(9)] * 4, entered(LEAST))
    assert all(domains.allows(3, rights) for rights in (UNHELD, WORK, LEAST))


@pytest.mark.parametrize("rights", [UNHELD, WORK, ONLINE])
def test_more_rights_take_the_user_s_word(rights: Rights) -> None:
    steps = (entered(LEAST), answered(9), entered(rights, 1))
    assert not folded(*steps).allows(1, rights)
    assert not folded(*steps, answered(2, "rejected")).allows(1, rights)
    assert not folded(*steps, answered(7)).allows(1, rights)
    assert folded(*steps, answered(2)).allows(1, rights)


def test_an_imported_answer_to_a_later_question_is_none() -> None:
    facts = SessionFacts()
    domains = Domains(facts)
    forged = replace(entered(LEAST, 1), event_id=EventId("e3"))
    mine = replace(entered(UNHELD, 1), event_id=EventId("e3"))
    steps: tuple[Event, ...] = (forged, answered(3), OthersWrote(by="import"), mine)
    for seq, event in enumerate(steps):
        stamped = replace(event, seq=Seq(seq))
        facts.apply(stamped)
        if type(stamped) in Domains.FOLLOWS:
            domains.apply(stamped)
    assert domains.asks
    assert not domains.allows(1, UNHELD)


def test_answer_covers_earlier_statements_and_no_further_rights() -> None:
    steps = (entered(LEAST), answered(9), entered(WORK, 1), answered(2), entered(LEAST), answered(9))
    domains = folded(*steps)
    assert domains.allows(1, WORK)
    assert not domains.allows(1, ONLINE)
    assert not domains.allows(5, WORK)
    assert domains.allows(5, LEAST)


def test_a_question_is_open_until_it_is_decided() -> None:
    steps = (entered(LEAST), entered(WORK, 2))
    assert not folded(entered(WORK)).asks
    assert folded(*steps).asks
    assert folded(*steps, answered(1, "cancelled")).asks
    assert not folded(*steps, answered(1, "rejected")).asks
    assert not folded(*steps, answered(1)).asks


def test_what_an_imported_log_says_of_rights_counts_for_nothing() -> None:
    domains = folded(
        entered(UNHELD), answered(9), entered(WORK, 1), answered(2), OthersWrote(by="import"), entered(LEAST)
    )
    assert not domains.allows(1, WORK)
    assert not domains.allows(3, UNHELD)
    assert domains.allows(1, LEAST)
    assert folded(entered(WORK), OthersWrote(by="import")).latest is None


def test_another_path_begins_anew() -> None:
    domains = folded(entered(WORK))
    assert domains.latest is not None
    domains.reset()
    assert domains.latest is None


def test_an_answered_call_of_an_older_log_is_a_reading() -> None:
    readings = Readings()
    for answered, read in ((False, (0, 0)), (True, (1, 3))):
        readings.apply(ProjectionSent(seq=Seq(5), round_id=1, position=3, size=9, answered=answered))
        assert (readings.count, readings.until) == read
