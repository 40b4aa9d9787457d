"""A turn that is cancelled or fails at any of its awaits: it ends once, nothing begins after it, the log is whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from engine import Session, Ticket
from engine.context.model import ModelError, ModelSignal, Prompt, StatementAsked, TextDelta
from engine.core.errors import EnvironmentUnavailableError, TurnFailedError
from engine.log.events.conversation import AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished
from engine.log.events.session import PermissionAnswered, PromptWithdrawn, WorkStopped
from engine.log.permissions import PermissionAnswer, PermissionQuestion
from engine.log.statements import TickOutcome
from tests.support.hollow import MOMENTS, HollowEnvironment, Moment, nothing
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


def assert_whole(session: Session) -> None:
    """Every call has its one result, every execution its end, and the run has stopped."""
    calls = [event.tool_call_id for event in session.events if isinstance(event, ToolCall)]
    assert [event.tool_call_id for event in session.events if isinstance(event, ToolResult)] == calls
    assert [event.kind for event in session.events].count("execution_started") == len(
        [event for event in session.events if isinstance(event, ExecutionFinished)]
    )
    assert isinstance(session.events[-1], RunStop)


def last_stop(session: Session) -> RunStop:
    return [event for event in session.events if isinstance(event, RunStop)][-1]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_cancel_during_any_request_to_the_environment_begins_no_other(tmp_path: Path, moment: Moment) -> None:
    environment = HollowEnvironment()
    model = AnsweringModel(runs("x = 1"))
    async with sessions_of(tmp_path, model=model, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
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


async def test_a_cancel_while_tokens_are_counted_begins_no_projection(tmp_path: Path) -> None:
    async def cancel(now: Moment) -> None:
        if now == "project":
            session.cancel()

    environment, model = HollowEnvironment(cancel), AnsweringModel(runs())
    async with sessions_of(
        tmp_path, model=model, environments=lambda: environment, settings={"context_budget": 4_000}
    ) as sessions:
        session = await sessions.create(str(tmp_path))
        assert (await session.accept("word " * 800).end()).cause == "cancelled"
        assert environment.requests == ["start", "project"]
        assert model.prompts == []
        assert_whole(session)


@pytest.mark.parametrize("moment", ["start", "restore"])
async def test_a_statement_that_is_cancelled_while_its_namespace_is_rebuilt_says_so(
    tmp_path: Path, moment: Moment
) -> None:
    environment = HollowEnvironment()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
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


async def test_a_cancel_while_the_model_replies_tears_the_stream_and_keeps_what_was_said(tmp_path: Path) -> None:
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
    async with sessions_of(tmp_path, model=model, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        assert (await session.accept("go").end()).cause == "cancelled"
        assert closed == ["closed"]
        assert [event.text for event in session.events if isinstance(event, AgentText)] == ["Half a "]
        assert_whole(session)


async def test_a_cancel_while_the_user_is_asked_withdraws_the_question_and_answers_the_call(tmp_path: Path) -> None:
    class Asked:
        async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
            session.cancel()
            await anyio.sleep_forever()
            raise AssertionError("it was torn")

    environment = HollowEnvironment()
    model = AnsweringModel(lambda _: [StatementAsked("x = 1")])
    async with sessions_of(tmp_path, model=model, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(Asked())
        assert (await session.accept("go").end()).cause == "cancelled"
        assert [event.outcome for event in session.events if isinstance(event, PermissionAnswered)] == ["cancelled"]
        assert [event.status for event in session.events if isinstance(event, ToolResult)] == ["cancelled"]
        assert environment.ran == []
        assert_whole(session)


async def test_a_steer_that_no_call_came_to_read_is_withdrawn(tmp_path: Path) -> None:
    model, environment = AnsweringModel(runs("x = 1")), HollowEnvironment()
    async with sessions_of(tmp_path, model=model, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        steers: list[Ticket] = []

        async def steer_and_cancel(now: Moment) -> None:
            if now == "run":
                steers.append(session.accept("rather not", wanted="steer"))
                session.cancel()

        environment.meanwhile = steer_and_cancel
        assert (await session.accept("go").end()).cause == "cancelled"
        assert (await steers[0].end()).cause == "cancelled"
        withdrawn = [event.message_id for event in session.events if isinstance(event, PromptWithdrawn)]
        assert withdrawn == [steers[0].message_id]
        assert_whole(session)


async def test_a_steer_during_a_statement_is_read_by_the_next_call_after_the_statements_result(tmp_path: Path) -> None:
    model, environment = AnsweringModel(runs("x = 1")), HollowEnvironment()
    async with sessions_of(tmp_path, model=model, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))

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
async def test_what_goes_wrong_ends_the_turn_and_leaves_the_log_whole(
    tmp_path: Path, error: Exception, detail: str
) -> None:
    def answer(prompt: Prompt) -> Sequence[ModelSignal]:
        if len(prompt.messages) > 1:
            raise error
        return [StatementAsked("x = 1", typed=True)]

    environment = HollowEnvironment()
    async with sessions_of(tmp_path, model=AnsweringModel(answer), environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        end = await session.accept("go").end()
        assert isinstance(end.failure, TurnFailedError) == isinstance(error, KeyError)
        assert_whole(session)
        stop = last_stop(session)
        assert (stop.reason, stop.cause, stop.detail) == ("error", "error", detail)


async def test_a_worker_that_cannot_be_had_fails_the_turn_and_its_statement(tmp_path: Path) -> None:
    environment = HollowEnvironment()
    async with sessions_of(tmp_path, model=AnsweringModel(runs("x = 1")), environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))

        async def fail(now: Moment) -> None:
            if now == "run":
                environment.alive = False
                raise EnvironmentUnavailableError("no memory for a worker")

        environment.meanwhile = fail
        assert (await session.accept("go").end()).detail == "no memory for a worker"
        (finished,) = [event for event in session.events if isinstance(event, ExecutionFinished)]
        assert finished.status == "error"
        assert finished.exception is not None
        assert "was not run" in finished.exception.message
        assert_whole(session)


@pytest.mark.parametrize("command", ["/context", "/tick", "/compact"])
async def test_a_cancelled_command_says_nothing_and_the_next_one_is_answered(tmp_path: Path, command: str) -> None:
    environment = HollowEnvironment()
    async with sessions_of(tmp_path, model=AnsweringModel(runs()), environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("kept = 1")

        async def cancel(_: Moment) -> None:
            session.cancel()
            await anyio.lowlevel.checkpoint()

        environment.meanwhile = cancel
        assert (await session.accept(command).end()).cause == "cancelled"
        assert not [event for event in session.events if isinstance(event, AgentText)]
        assert last_stop(session).cause == "cancelled"
        environment.meanwhile = nothing
        assert (await session.accept(command).end()).cause == "end_turn"
        assert [event for event in session.events if isinstance(event, AgentText)]


async def test_a_cancelled_turn_keeps_nothing_later_from_beginning(tmp_path: Path) -> None:
    environment = HollowEnvironment()
    async with sessions_of(tmp_path, model=AnsweringModel(runs("x = 1")), environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))

        async def cancel(now: Moment) -> None:
            if now == "run":
                session.cancel()

        environment.meanwhile = cancel
        assert (await session.accept("go").end()).cause == "cancelled"
        environment.requests.clear()
        await session.tick()
        assert environment.requests == ["tick"]
        environment.meanwhile = nothing
        assert (await session.accept("and now?").end()).cause == "end_turn"


class Stopping(HollowEnvironment):
    """Says at each tick what was kept from acting."""

    async def tick(self, *arguments: object, **named: object) -> TickOutcome:
        return TickOutcome(stops=("thread 'a' was kept from os.mkdir /x",))


async def test_what_a_rebuild_kept_from_acting_is_on_the_log_and_told_to_the_model(tmp_path: Path) -> None:
    model = AnsweringModel(runs())
    async with sessions_of(tmp_path, model=model, environments=Stopping) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("kept = 1")
        await session.accept("go").end()
        stopped = [event for event in session.events if isinstance(event, WorkStopped)]
    assert [event.sentences for event in stopped] == [("thread 'a' was kept from os.mkdir /x",)]


class Hearing(HollowEnvironment):
    """Counts how often it hears that a model has read."""

    readings = 0

    def read(self) -> None:
        self.readings += 1


async def test_a_namespace_hears_of_a_reading_once_and_of_no_call_that_failed(tmp_path: Path) -> None:
    answers: list[Exception | TextDelta] = [ModelError("overloaded"), TextDelta("one"), TextDelta("two")]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return [given]

    environment = Hearing()
    async with sessions_of(tmp_path, model=AnsweringModel(answer), environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("kept = 1")
        heard: list[int] = []
        for text in ("go", "/context", "go", "/context", "/context", "go", "/context"):
            await session.accept(text).end()
            heard.append(environment.readings)
    assert heard == [0, 0, 0, 1, 1, 1, 2]
