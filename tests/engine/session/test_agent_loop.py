"""A turn that is cancelled or fails at any of its awaits: it ends once, nothing begins after it, the log is whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from engine import Session, Ticket
from engine.context.model import CallRefused, ModelError, ModelSignal, Prompt, StatementAsked, TextDelta
from engine.context.models.statement_tool import ONE_CALL
from engine.core.errors import EnvironmentUnavailableError, TurnFailedError
from engine.log.events.conversation import AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished
from engine.log.events.session import PermissionAnswered, PromptWithdrawn, WorkStopped
from engine.log.permissions import PermissionAnswer, PermissionQuestion
from engine.log.statements import TickOutcome
from engine.session.cancellation import Cancellation, WorkCancelledError
from tests.support.hollow import MOMENTS, HollowEnvironment, Moment, nothing
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import events_of, session_in

pytestmark = pytest.mark.anyio


def assert_whole(session: Session) -> None:
    """Every call has its one result, every execution its end, and the run has stopped."""
    calls = [event.tool_call_id for event in events_of(session, ToolCall)]
    assert [event.tool_call_id for event in events_of(session, ToolResult)] == calls
    assert [event.kind for event in session.events].count("execution_started") == len(
        events_of(session, ExecutionFinished)
    )
    assert isinstance(session.events[-1], RunStop)


def assert_whole_in_any_order(session: Session) -> None:
    calls, results = events_of(session, ToolCall), events_of(session, ToolResult)
    assert sorted(event.tool_call_id for event in results) == sorted(event.tool_call_id for event in calls)


def last_stop(session: Session) -> RunStop:
    return events_of(session, RunStop)[-1]


async def test_a_model_reads_why_a_call_was_not_run(tmp_path: Path) -> None:
    searched = CallRefused("grep", {"pattern": "x"}, "there is no tool 'grep'", "c1")
    replies: list[Sequence[ModelSignal]] = [
        [searched],
        [searched, StatementAsked("6 * 7", "c2", typed=True), StatementAsked("8", "c3", typed=True)],
        [TextDelta("Done.")],
    ]
    model = AnsweringModel(lambda _: replies.pop(0))
    async with session_in(tmp_path, model=model) as session:
        assert (await session.accept("go").end()).cause == "end_turn"
        assert_whole_in_any_order(session)
        calls = events_of(session, ToolCall)
        assert [(call.tool, call.arguments) for call in calls] == [
            ("grep", {"pattern": "x"}),
            ("grep", {"pattern": "x"}),
            ("python", {"source": "6 * 7"}),
            ("python", {"source": "8"}),
        ]
        results = {event.tool_call_id: (event.status, event.text) for event in events_of(session, ToolResult)}
        assert [results[call.tool_call_id] for call in calls] == [
            ("error", "there is no tool 'grep'"),
            ("error", "there is no tool 'grep'"),
            ("ok", "42"),
            ("error", ONE_CALL),
        ]
        assert [len(events_of(session, ExecutionFinished)), len(model.prompts)] == [1, 3]
        read = [event.text for event in model.prompts[1].messages if isinstance(event, ToolResult)]
        assert read == ["there is no tool 'grep'"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_cancel_during_an_environment_request_begins_no_other(tmp_path: Path, moment: Moment) -> None:
    environment = HollowEnvironment()
    model = AnsweringModel(runs("x = 1"))
    async with session_in(
        tmp_path, model=model, environments=lambda: environment, settings={"restore_by": "re-execution"}
    ) as session:
        await session.cell("kept = 1")
        environment.alive = False
        environment.requests.clear()

        async def cancel(now: Moment) -> None:
            if now == moment:
                session.cancel()
            await anyio.lowlevel.checkpoint()

        environment.meanwhile = cancel
        assert (await session.accept("go").end()).cause == "cancelled"
        assert environment.requests == ["start", "restore", "tick", "project", "run"][: MOMENTS.index(moment) + 1]
        assert len(model.prompts) == (moment == "run")
        assert environment.interrupts == (moment == "run")
        assert_whole(session)
        assert last_stop(session) == replace(last_stop(session), reason="interrupted", cause="cancelled", detail=None)


@pytest.mark.parametrize("moment", ["start", "restore"])
async def test_statement_cancelled_during_its_rebuild_says_so(tmp_path: Path, moment: Moment) -> None:
    environment = HollowEnvironment()
    settings: dict[str, object] = {"restore_by": "re-execution"}
    async with session_in(tmp_path, environments=lambda: environment, settings=settings) as session:
        await session.cell("kept = 1")
        environment.alive = False

        async def cancel(now: Moment) -> None:
            if now == moment:
                session.cancel()
            await anyio.lowlevel.checkpoint()

        environment.meanwhile = cancel
        assert (await session.cell("x = 1")).status == "cancelled"
        assert environment.ran == ["kept = 1"]
        environment.meanwhile = nothing
        assert (await session.cell("x = 2")).status == "ok"


async def test_cancel_during_a_reply_closes_the_stream_and_keeps_text(tmp_path: Path) -> None:
    closed: list[str] = []

    class Slow(AnsweringModel):
        async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
            try:
                yield TextDelta("Half a ")
                session.cancel()
                await anyio.sleep_forever()
            finally:
                closed.append("closed")

    model, environment = Slow(runs()), HollowEnvironment()
    async with session_in(tmp_path, model=model, environments=lambda: environment) as session:
        assert (await session.accept("go").end()).cause == "cancelled"
        assert closed == ["closed"]
        assert [event.text for event in events_of(session, AgentText)] == ["Half a "]
        assert_whole(session)


async def test_cancel_during_a_question_withdraws_it_and_answers_the_call(tmp_path: Path) -> None:
    class Asked:
        async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
            session.cancel()
            await anyio.sleep_forever()
            raise AssertionError("it was torn")

    environment = HollowEnvironment()
    model = AnsweringModel(lambda _: [StatementAsked("x = 1")])
    async with session_in(tmp_path, model=model, environments=lambda: environment) as session:
        session.attach(Asked())
        assert (await session.accept("go").end()).cause == "cancelled"
        assert [event.outcome for event in events_of(session, PermissionAnswered)] == ["cancelled"]
        assert [event.status for event in events_of(session, ToolResult)] == ["cancelled"]
        assert environment.ran == []
        assert_whole(session)


async def test_a_steer_that_no_call_came_to_read_is_withdrawn(tmp_path: Path) -> None:
    model, environment = AnsweringModel(runs("x = 1")), HollowEnvironment()
    async with session_in(tmp_path, model=model, environments=lambda: environment) as session:
        steers: list[Ticket] = []

        async def steer_and_cancel(now: Moment) -> None:
            if now == "run":
                steers.append(session.accept("rather not", wanted="steer"))
                session.cancel()
                steers.append(session.accept("but then", wanted="steer"))

        environment.meanwhile = steer_and_cancel
        assert (await session.accept("go").end()).cause == "cancelled"
        assert [(await ticket.end()).cause for ticket in steers] == ["cancelled", "end_turn"]
        withdrawn = [event.message_id for event in events_of(session, PromptWithdrawn)]
        assert withdrawn == [steers[0].message_id]
        assert_whole(session)


async def test_steer_during_a_statement_is_read_after_its_result(tmp_path: Path) -> None:
    model, environment = AnsweringModel(runs("x = 1")), HollowEnvironment()
    async with session_in(tmp_path, model=model, environments=lambda: environment) as session:

        async def steer(now: Moment) -> None:
            if now == "run":
                session.accept("be brief", wanted="steer")

        environment.meanwhile = steer
        assert (await session.accept("go").end()).cause == "end_turn"
        assert len(model.prompts) == 2
        assert [type(message) for message in model.prompts[1].messages] == [
            UserMessage,
            ToolCall,
            ToolResult,
            UserMessage,
        ]


@pytest.mark.parametrize(
    ("error", "detail"),
    [(ModelError("overloaded"), "overloaded"), (KeyError("a defect"), "internal error")],
    ids=["a failure", "a defect"],
)
async def test_failure_or_defect_ends_the_turn_with_a_whole_log(tmp_path: Path, error: Exception, detail: str) -> None:
    def answer(prompt: Prompt) -> Sequence[ModelSignal]:
        if len(prompt.messages) > 1:
            raise error
        return [StatementAsked("x = 1", typed=True)]

    environment = HollowEnvironment()
    async with session_in(tmp_path, model=AnsweringModel(answer), environments=lambda: environment) as session:
        end = await session.accept("go").end()
        assert isinstance(end.failure, TurnFailedError) == isinstance(error, KeyError)
        assert_whole(session)
        stop = last_stop(session)
        assert (stop.reason, stop.cause, stop.detail) == ("error", "error", detail)


async def test_unavailable_worker_fails_the_turn_and_its_statement(tmp_path: Path) -> None:
    environment = HollowEnvironment()
    async with session_in(tmp_path, model=AnsweringModel(runs("x = 1")), environments=lambda: environment) as session:

        async def fail(now: Moment) -> None:
            if now == "run":
                environment.alive = False
                raise EnvironmentUnavailableError("no memory for a worker")

        environment.meanwhile = fail
        assert (await session.accept("go").end()).detail == "no memory for a worker"
        (finished,) = events_of(session, ExecutionFinished)
        assert finished.status == "error"
        assert finished.exception is not None
        assert "was not run" in finished.exception.message
        assert_whole(session)


@pytest.mark.parametrize("command", ["/context", "/tick", "/compact"])
async def test_cancelled_command_says_nothing_and_the_next_is_answered(tmp_path: Path, command: str) -> None:
    environment = HollowEnvironment()
    async with session_in(tmp_path, model=AnsweringModel(runs()), environments=lambda: environment) as session:
        await session.cell("kept = 1")

        async def cancel(_: Moment) -> None:
            session.cancel()
            await anyio.lowlevel.checkpoint()

        environment.meanwhile = cancel
        assert (await session.accept(command).end()).cause == "cancelled"
        assert not events_of(session, AgentText)
        assert last_stop(session).cause == "cancelled"
        environment.meanwhile = nothing
        assert (await session.accept(command).end()).cause == "end_turn"
        assert events_of(session, AgentText)


class Stopping(HollowEnvironment):
    """Says at each tick what was kept from acting."""

    async def tick(self, *arguments: object, **named: object) -> TickOutcome:
        return TickOutcome(stops=("thread 'a' was not allowed to call os.mkdir /x",))


async def test_work_stopped_by_a_rebuild_is_on_the_log(tmp_path: Path) -> None:
    model = AnsweringModel(runs())
    async with session_in(tmp_path, model=model, environments=Stopping) as session:
        await session.cell("kept = 1")
        await session.accept("go").end()
        stopped = events_of(session, WorkStopped)
    assert [event.sentences for event in stopped] == [("thread 'a' was not allowed to call os.mkdir /x",)]


SECONDS = 5.0


async def never() -> None:
    pytest.fail("it began")


async def test_what_is_guarded_gives_its_result_where_nobody_cancels() -> None:
    async def perform() -> int:
        await anyio.lowlevel.checkpoint()
        return 42

    assert await Cancellation().guard(perform) == 42


async def test_a_cancel_tears_what_is_guarded() -> None:
    cancellation, waiting, ended = Cancellation(), anyio.Event(), list[str]()

    async def perform() -> None:
        waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("torn")

    async def cancel() -> None:
        await waiting.wait()
        cancellation.cancel()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            with pytest.raises(WorkCancelledError):
                await cancellation.guard(perform)
    assert ended == ["torn"]


async def test_nothing_begins_after_a_cancel() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(WorkCancelledError):
        await cancellation.guard(never)
    with pytest.raises(WorkCancelledError):
        await cancellation.stoppable(never, lambda: None)


async def test_a_cancel_between_two_waits_is_not_lost() -> None:
    cancellation = Cancellation()
    await cancellation.guard(anyio.lowlevel.checkpoint)
    cancellation.cancel()
    with pytest.raises(WorkCancelledError):
        await cancellation.guard(never)


async def test_result_after_a_cancel_is_dropped() -> None:
    cancellation = Cancellation()

    async def perform() -> int:
        cancellation.cancel()
        return 42

    with pytest.raises(WorkCancelledError):
        await cancellation.guard(perform)


async def test_stoppable_work_is_told_once_and_awaited() -> None:
    cancellation, told, waiting = Cancellation(), list[str](), anyio.Event()
    stopped = anyio.Event()

    def stop() -> None:
        told.append("stop")
        stopped.set()

    async def perform() -> str:
        waiting.set()
        await stopped.wait()
        await anyio.lowlevel.checkpoint()
        return "stopped"

    async def cancel_twice() -> None:
        await waiting.wait()
        cancellation.cancel()
        cancellation.cancel()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_twice)
            assert await cancellation.stoppable(perform, stop) == "stopped"
    assert told == ["stop"]


async def test_what_has_ended_is_not_told_to_stop() -> None:
    cancellation = Cancellation()
    await cancellation.stoppable(anyio.lowlevel.checkpoint, lambda: pytest.fail("it has ended"))
    cancellation.cancel()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_failure_is_raised_as_it_is(cancelled: bool) -> None:
    cancellation = Cancellation()

    async def fail() -> None:
        if cancelled:
            cancellation.cancel()
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await cancellation.guard(fail)


async def test_the_end_of_the_task_itself_passes_through() -> None:
    cancellation, reached = Cancellation(), list[str]()
    with anyio.CancelScope() as scope:

        async def end() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        await cancellation.guard(end)
        reached.append("went on")
    assert scope.cancelled_caught
    assert reached == []


async def test_cancel_at_the_end_of_the_task_ends_the_task() -> None:
    cancellation, reached = Cancellation(), list[str]()
    with anyio.CancelScope() as scope:

        async def end() -> None:
            cancellation.cancel()
            scope.cancel()
            await anyio.sleep_forever()

        try:
            await cancellation.guard(end)
        except WorkCancelledError:
            await anyio.lowlevel.checkpoint()
        reached.append("went on")
    assert reached == []
