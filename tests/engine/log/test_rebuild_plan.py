"""The plan of a rebuild, as a fold over the log."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from engine.core.execution import Ending, ExceptionInfo, KeptGroup, NamespaceDiff, TypeInfo
from engine.core.ids import BlobDigest, EventId, ExecutionId, ObjId, PayloadId, Seq, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.execution import (
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    StatementOmitted,
    StatementRecorded,
    ValuesDropped,
    ValuesKept,
)
from engine.log.events.going_back import ReplayBegun, ReplayEnded
from engine.log.events.nodes import (
    AsyncPayloadApplied,
    AsyncPayloadDropped,
    AsyncPayloadPrepared,
    NodesTicked,
    OutlineMade,
    PayloadBasis,
    RevisionAdopted,
)
from engine.log.events.session import EnvironmentRestored, UsageReported
from engine.log.past import (
    PastAnswer,
    PastExecution,
    PastLooks,
    PastQuestion,
    PastRebuild,
    PastRevision,
    PastTick,
    PastValues,
    RestorePlan,
)
from engine.log.rebuild_plan import NOT_ALLOWED, History, KeptValues, Rebuild

SEEN = RevisionAdopted(path="/a", look=1, state="text", digest="d1", size=3, content=BlobDigest("blake2b-1"))
ALSO_SEEN = PastRevision(path="/a", look=1, state="text", digest="d1", size=3, content=BlobDigest("blake2b-1"))
READ = UsageReported(used=1, size=2)


def began(number: int, source: str = "x = 1", *, withheld: str = "", **started: Any) -> tuple[Event, ...]:
    statement = StatementId(f"s{number}")
    return (
        StatementRecorded(
            statement_id=statement,
            index=number,
            source=source,
            tool_call_id=ToolCallId(f"c{number}"),
            withheld=withheld,
        ),
        ExecutionStarted(execution_id=ExecutionId(f"e{number}"), statement_id=statement, **started),
    )


def ended(number: int, **fields: Any) -> ExecutionFinished:
    values: dict[str, Any] = {"status": "ok", "started_at": 0.0, "ended_at": 0.0, **fields}
    return ExecutionFinished(execution_id=ExecutionId(f"e{number}"), statement_id=StatementId(f"s{number}"), **values)


def plan_of(*events: Event) -> RestorePlan:
    history = History()
    for event in events:
        history.apply(event)
        history.values.apply(event)
    return history.plan(5.0)


def test_copies_of_values_that_were_dropped_are_marked_as_that() -> None:
    kept = [
        ValuesKept(
            seq=Seq(number),
            execution_id=ExecutionId(f"e{number}"),
            groups=(KeptGroup(names=("x",), content=BlobDigest(f"blake2b-{number}"), size=1),),
        )
        for number in (1, 2, 3)
    ]
    dropped = ValuesDropped(seq=Seq(4), before=Seq(3), executions=2, copies=2, size=2, limit=1)
    steps = [event for number in (1, 2, 3) for event in (*began(number, round_id=0), ended(number), kept[number - 1])]
    plan = plan_of(*steps, dropped)
    found = [step.kept[0].dropped for step in plan.steps if isinstance(step, PastExecution)]
    assert found == [True, True, False]


def test_copies_of_an_earlier_rebuild_are_left_out_if_loading_them_is_not_allowed() -> None:
    values, restored = (
        KeptValues(),
        EnvironmentRestored(event_id=EventId("r"), executions=1, anew=("x",), absent=("y",)),
    )
    group = KeptGroup(names=("x",), content=BlobDigest("blake2b-1"), size=1)
    values.apply(ValuesKept(execution_id=ExecutionId("r"), groups=(group,)))
    allowed, denied = (Rebuild(restored).past(values, is_allowed=is_allowed) for is_allowed in (True, False))
    assert allowed == PastRebuild(anew=("x",), absent=("y",), kept=values.groups(ExecutionId("r")))
    assert denied == PastRebuild(anew=("x",), absent=("y",), unkept={"x": NOT_ALLOWED})


def only(plan: RestorePlan) -> PastExecution:
    (step,) = plan.steps
    assert isinstance(step, PastExecution)
    return step


def test_plan_has_executions_and_ticks_in_order() -> None:
    plan = plan_of(
        *began(1, round_id=2, plan=True),
        ended(1),
        NodesTicked(round_id=3, now=8.5, nodes=1),
        SEEN,
        *began(2, round_id=3, plan=False),
        ended(2),
    )
    first, tick, second = plan.steps
    assert (first.request.index, first.request.round_id, first.request.plan) == (1, 2, True)
    assert first.request.time_limit == 5.0
    assert tick == PastTick(round_id=3, now=8.5, revisions=(ALSO_SEEN,))
    assert (second.request.index, second.request.round_id, second.request.plan) == (2, 3, False)


def test_what_a_statement_saw_and_left_is_in_its_step() -> None:
    diff = NamespaceDiff(added={"x": TypeInfo(type_name="int", short_repr="1")}, deleted=("y",))
    error = ExceptionInfo(type="OSError", message="no")
    step = only(
        plan_of(
            *began(1, round_id=0, plan=False),
            EffectRequested(execution_id=ExecutionId("e1"), ordinal=1, operation="read", argument_digest="q1"),
            EffectRequested(execution_id=ExecutionId("e1"), ordinal=0, operation="ls", argument_digest="q0"),
            EffectAnswered(execution_id=ExecutionId("e1"), ordinal=1, operation="read", error=error),
            EffectAnswered(execution_id=ExecutionId("e1"), ordinal=0, operation="ls", result=BlobDigest("blake2b-2")),
            SEEN,
            ended(1, diff=diff),
            ValuesKept(
                execution_id=ExecutionId("e1"),
                groups=(KeptGroup(names=("x",), content=BlobDigest("blake2b-3"), size=9),),
                unkept={"z": "too large"},
            ),
        )
    )
    assert step.answers == (
        PastAnswer(
            content=BlobDigest("blake2b-2"), question=PastQuestion(ordinal=0, operation="ls", argument_digest="q0")
        ),
        PastAnswer(error=error, question=PastQuestion(ordinal=1, operation="read", argument_digest="q1")),
    )
    assert step.revisions == (ALSO_SEEN,)
    assert (step.bound, step.unbound) == (("x",), ("y",))
    assert (step.kept, step.unkept) == (
        (PastValues(names=("x",), content=BlobDigest("blake2b-3"), size=9),),
        {"z": "too large"},
    )


def test_step_has_the_record_unless_a_statement_is_omitted() -> None:
    diff = NamespaceDiff(added={"x": TypeInfo(type_name="int", short_repr="1")})
    error = ExceptionInfo(type="OSError", message="no", traceback="where nobody compares it")
    events = (
        *began(1, round_id=0),
        ended(1),
        *began(2, round_id=0),
        ended(2, status="error", exception=error, diff=diff, acted=True),
    )
    _, step = plan_of(*events).steps
    assert step.record == Ending(status="error", exception=ExceptionInfo(type="OSError", message="no"), diff=diff)
    assert step.acted
    # What comes of leaving a statement out is for the host to tell.
    assert only(plan_of(*events, StatementOmitted(statement_id=StatementId("s1")))).record is None


@pytest.mark.parametrize(
    ("status", "exception", "again"),
    [
        ("ok", None, True),
        ("error", "ValueError", True),
        ("cancelled", "KeyboardInterrupt", False),
        ("timeout", None, False),
    ],
)
def test_what_was_stopped_does_not_run_again(status: str, exception: str | None, again: bool) -> None:
    failure = None if exception is None else ExceptionInfo(type=exception, message="")
    assert only(plan_of(*began(1, round_id=0), ended(1, status=status, exception=failure))).again is again


def test_statement_with_a_secret_does_not_run_again() -> None:
    assert only(plan_of(*began(1, withheld="blake2b:1", round_id=0), ended(1))).again is False


@pytest.mark.parametrize("exception", ["WorkerDied", "NotRun", "Interrupted"])
def test_step_that_left_nothing_keeps_its_looks(exception: str) -> None:
    failure = ExceptionInfo(type=exception, message="")
    plan = plan_of(*began(1, round_id=0), SEEN, ended(1, status="error", exception=failure))
    assert plan.steps == (PastLooks(revisions=(ALSO_SEEN,)),)


def test_omitted_statement_is_no_step_until_included_again() -> None:
    events = (*began(1, round_id=0), ended(1), StatementOmitted(statement_id=StatementId("s1")))
    assert plan_of(*events).steps == ()
    assert only(plan_of(*events, StatementOmitted(statement_id=StatementId("s1"), omitted=False))).again


def test_what_is_running_is_no_step() -> None:
    assert plan_of(*began(1, round_id=0)).steps == ()


def test_older_log_has_no_known_revisions() -> None:
    step = only(plan_of(*began(1), ended(1)))
    assert step.revisions is None
    assert (step.request.round_id, step.request.plan) == (0, False)


def test_step_notes_a_model_call_before_it() -> None:
    plan = plan_of(
        *began(1, round_id=0),
        ended(1),
        READ,
        *began(2, round_id=1),
        ended(2),
        NodesTicked(round_id=1, now=1.0, nodes=1),
    )
    marks = [step.after_reading for step in plan.steps if not isinstance(step, PastLooks)]
    assert (marks, plan.after_reading) == ([False, True, False], False)
    assert plan_of(*began(1, round_id=0), ended(1), READ).after_reading


def test_reading_before_an_empty_step_counts() -> None:
    lost = ended(2, status="error", exception=ExceptionInfo(type="WorkerDied", message=""))
    plan = plan_of(*began(1, round_id=0), ended(1), READ, *began(2, round_id=1), lost, *began(3, round_id=1), ended(3))
    assert [step.after_reading for step in plan.steps if isinstance(step, PastExecution)] == [False, True]


def test_step_has_the_payloads_that_its_own_ticks_used() -> None:
    prepared = [
        AsyncPayloadPrepared(
            payload_id=PayloadId(f"p{number}"),
            obj_id=ObjId("view-1.1"),
            prepared_at=1.0,
            payload_kind="diff",
            basis=PayloadBasis(),
            payload_hash="",
            data=BlobDigest(f"d{number}"),
        )
        for number in range(3)
    ]
    applied, dropped, later = (each.payload_id for each in prepared)
    step = only(
        plan_of(
            *prepared,
            *began(1, round_id=4),
            AsyncPayloadApplied(payload_id=applied, obj_id=ObjId("view-1.1"), payload_kind="diff", turn_id=4),
            AsyncPayloadDropped(
                payload_id=dropped, obj_id=ObjId("view-1.1"), payload_kind="diff", reason="stale", turn_id=4
            ),
            AsyncPayloadApplied(payload_id=later, obj_id=ObjId("view-1.1"), payload_kind="diff", turn_id=5),
            ended(1),
        )
    )
    assert [(each.payload.payload_id, each.content) for each in step.payloads] == [(applied, "d0"), (dropped, "d1")]


def test_latest_execution_counts() -> None:
    history = History()
    statement, started = began(1, round_id=0)
    again = ExecutionStarted(execution_id=ExecutionId("e9"), statement_id=StatementId("s1"), round_id=4)
    for event in (statement, started, SEEN, ended(1), again):
        history.apply(event)
    assert history.record(ExecutionId("e1")) is None
    assert history.plan(1.0).steps == ()
    history.apply(
        ExecutionFinished(
            execution_id=ExecutionId("e9"), statement_id=StatementId("s1"), status="ok", started_at=0.0, ended_at=0.0
        )
    )
    step = only(history.plan(1.0))
    assert (step.request.execution_id, step.request.round_id, step.revisions) == ("e9", 4, ())


def test_a_plan_says_what_outlined_each_content_last() -> None:
    made = [OutlineMade(digest=digest, tier=tier) for digest, tier in (("d1", "tree-sitter"), ("d2", "ctags"))]
    plan = plan_of(*began(1), *made, ended(1), OutlineMade(digest="d2", tier="indentation"))
    assert plan.tiers == {"d1": "tree-sitter", "d2": "indentation"}


@pytest.mark.parametrize(("behind", "follow"), [((), []), ((*began(2), ended(2)), ["tick", "s2", "tick"])])
def test_ticks_follow_a_live_replay_only_with_later_statements(behind: tuple[Event, ...], follow: list[str]) -> None:
    again = ExecutionStarted(execution_id=ExecutionId("e1b"), statement_id=StatementId("s1"), mode="live")
    tick = NodesTicked(round_id=1, now=1.0, nodes=1)
    plan = plan_of(
        *(*began(1), ended(1), tick, SEEN, *behind, *((tick, SEEN) if behind else ())),
        *(ReplayBegun(first=1, last=1, mode="live", statements=1), again),
        replace(ended(1), execution_id=ExecutionId("e1b")),
        ReplayEnded(outcome="completed"),
    )
    first, *others = plan.steps
    assert first.request.execution_id == "e1b"
    names = ["tick" if isinstance(step, PastTick) else "s2" for step in others]
    assert names == follow
