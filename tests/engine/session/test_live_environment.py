"""Who asks for the environment gets a living one, over an environment that can be lost at will."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from engine.core.errors import EnvironmentUnavailableError
from engine.core.execution import INTERRUPTED, ExceptionInfo
from engine.core.ids import ExecutionId, Minter, StatementId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementOmitted, StatementRecorded
from engine.log.events.session import EnvironmentRestored
from engine.log.facts import READING, Readings
from engine.log.past import PastExecution
from engine.log.redaction import Redactor
from engine.log.statements import RunRequest
from engine.runtime.environment import Environment
from engine.session.cancellation import Cancellation, WorkCancelledError
from engine.session.journal import StatementRerun
from engine.session.live_environment import INTERRUPTED_SENTENCE, LiveEnvironment, RebuildProgress
from engine.session.saved_state import CheckpointSaver, ValueSaver
from tests.support.confining import confinement_of
from tests.support.environments import PATIENCE, until
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.session_parts import session_parts

pytestmark = pytest.mark.anyio


def living(environment: HollowEnvironment, *sources: str) -> tuple[LiveEnvironment, EventLog]:
    """An environment of a session in which these statements have run."""
    parts = session_parts(Path("/nowhere"), environments=lambda: environment)
    readings, log = Readings(), parts.log
    log.follow(readings.apply, READING)
    for number, source in enumerate(sources, 1):
        statement, execution = StatementId(f"st{number}"), ExecutionId(f"ex{number}")
        call = ToolCallId(f"c{number}")
        log.append(StatementRecorded(statement_id=statement, index=number, source=source, tool_call_id=call))
        log.append(ExecutionStarted(execution_id=execution, statement_id=statement))
        finished = ExecutionFinished(
            execution_id=execution, statement_id=statement, status="ok", started_at=1.0, ended_at=2.0
        )
        log.append(finished)
    values = ValueSaver(log, parts.store, Redactor(()), anyio.lowlevel.checkpoint)
    kept = CheckpointSaver(log, keeps=False)
    live = LiveEnvironment(parts, readings, values, kept, confinement_of(parts))
    return live, log


class Act:
    """Something that is done in an environment: fails `losses` times, and loses the environment with it if `fatal`."""

    def __init__(self, losses: int = 0, *, fatal: bool = True) -> None:
        self.calls = 0
        self._losses = losses
        self._fatal = fatal

    async def __call__(self, environment: Environment) -> str:
        assert isinstance(environment, HollowEnvironment)
        assert environment.alive
        self.calls += 1
        if self.calls <= self._losses:
            environment.alive = not self._fatal
            raise EnvironmentUnavailableError("lost")
        return "done"


async def test_the_environment_is_started_with_its_first_use_and_kept() -> None:
    environment = HollowEnvironment()
    live, log = living(environment)
    assert [await live.use(Act()), await live.use(Act())] == ["done", "done"]
    assert environment.requests == ["start"]
    assert not log.events


async def test_lost_environment_is_rebuilt_and_the_act_repeated_once() -> None:
    environment, act = HollowEnvironment(), Act(losses=1)
    live, log = living(environment, "x = 1", "x += 1")
    assert await live.use(act) == "done"
    assert environment.requests == ["start", "restore"] * 2
    assert act.calls == 2
    assert environment.restored == ["x = 1", "x += 1"]
    assert [event.executions for event in log.events if isinstance(event, EnvironmentRestored)] == [2, 2]


async def test_a_rebuild_says_why_the_names_were_lost() -> None:
    environment = HollowEnvironment()
    live, log = living(environment, "x = 1")
    await live.ready()
    environment.alive, environment.lost_by = False, "it held too much"
    await live.ready()
    first, second = [event for event in log.events if isinstance(event, EnvironmentRestored)]
    assert (first.loss, second.loss) == (None, "it held too much")
    assert second.sentences == ("the variables were lost: it held too much",)


@pytest.mark.parametrize("sources", [(), ("x = 1",)], ids=["alone", "after another"])
async def test_first_rebuild_reports_an_interrupted_statement(sources: tuple[str, ...]) -> None:
    live, log = living(HollowEnvironment(), *sources, "y = slow()")
    number = len(sources) + 1
    log.append(
        ExecutionFinished(
            execution_id=ExecutionId(f"ex{number}"),
            statement_id=StatementId(f"st{number}"),
            status="cancelled",
            started_at=1.0,
            ended_at=1.0,
            exception=ExceptionInfo(type=INTERRUPTED, message=""),
        )
    )
    for _ in range(2):
        await live.ready()
        await live.rest()
    said = [event.divergences for event in log.events if isinstance(event, EnvironmentRestored)]
    (sentence,) = said[0]
    assert sentence == f"<statement {number}> {INTERRUPTED_SENTENCE}"
    assert not any(said[1:])


async def test_one_that_is_lost_twice_is_a_failure() -> None:
    act = Act(losses=2)
    with pytest.raises(EnvironmentUnavailableError, match="lost"):
        await living(HollowEnvironment())[0].use(act)
    assert act.calls == 2


async def test_a_failure_in_a_living_environment_is_not_tried_again() -> None:
    act = Act(losses=1, fatal=False)
    with pytest.raises(EnvironmentUnavailableError, match="lost"):
        await living(HollowEnvironment())[0].use(act)
    assert act.calls == 1


@pytest.mark.parametrize("losses", [0, 1])
async def test_cancel_while_the_environment_starts_prevents_the_act(losses: int) -> None:
    cancellation, act = Cancellation(), Act(losses=losses)

    async def cancel_the_last(_: Moment) -> None:
        if environment.requests.count("start") == losses + 1:
            cancellation.cancel()

    environment = HollowEnvironment(cancel_the_last)
    with pytest.raises(WorkCancelledError):
        await living(environment)[0].use(act, cancellation)
    assert act.calls == losses


async def test_cancel_does_not_interrupt_an_act_in_the_environment() -> None:
    cancellation = Cancellation()

    async def act(environment: Environment) -> str:
        cancellation.cancel()
        await anyio.lowlevel.checkpoint()
        return "whole"

    assert await living(HollowEnvironment())[0].use(act, cancellation) == "whole"


async def test_worker_is_unavailable_while_its_past_changes() -> None:
    hollow = HollowEnvironment()
    environment, log = living(hollow, "x = 1")
    await environment.ready()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks, environment.ended():
            assert not hollow.alive
            tasks.start_soon(environment.ready)
            await anyio.wait_all_tasks_blocked()
            assert not hollow.alive
            log.append(StatementOmitted(statement_id=StatementId("st1")))
    assert hollow.alive
    assert hollow.requests.count("start") == 2
    assert hollow.requests.count("restore") == 1


def past(number: int) -> PastExecution:
    execution = ExecutionId(f"ex{number}")
    request = RunRequest(execution_id=execution, label=f"<statement {number}>", source="", index=number)
    return PastExecution(request=request, status="ok")


class Rebuild:
    """A rebuild of the statements 3, 5 and 8, and what is said of it."""

    def __init__(self, first_seconds: float = 0.001) -> None:
        self.environment = HollowEnvironment()
        self.said: list[StatementRerun] = []
        minter = Minter(FixedClock(), CountingEntropy())
        self.progress = RebuildProgress(
            self.said.append, minter, self.environment, [past(number) for number in (3, 5, 8)], first_seconds
        )

    async def reach(self, number: int, said: int) -> None:
        """A statement begins, and it is waited until so much was said."""
        self.environment.rerunning = ExecutionId(f"ex{number}")
        with anyio.fail_after(PATIENCE):
            await until(lambda: len(self.said) >= said)

    @property
    def places(self) -> Sequence[tuple[int, int, int, str]]:
        return [(each.statement, each.place, each.total, each.state) for each in self.said]


async def test_each_rerun_statement_is_reported_once_then_the_end() -> None:
    rebuild = Rebuild()
    async with rebuild.progress.reporting():
        await rebuild.reach(3, 1)
        await rebuild.reach(8, 2)
        await anyio.lowlevel.checkpoint()
    assert rebuild.places == [(3, 1, 3, "begun"), (8, 3, 3, "running"), (8, 3, 3, "over")]
    assert len({each.tool_call_id for each in rebuild.said}) == 1


async def test_a_rebuild_that_is_given_up_is_said_to_be() -> None:
    rebuild = Rebuild()
    with anyio.CancelScope() as scope:
        async with rebuild.progress.reporting():
            await rebuild.reach(5, 1)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert [state for *_, state in rebuild.places] == ["begun", "given_up"]


async def test_what_is_told_of_elsewhere_ends_it() -> None:
    rebuild = Rebuild()
    async with rebuild.progress.reporting():
        await rebuild.reach(5, 1)
        await rebuild.reach(9, 2)
        assert [state for *_, state in rebuild.places] == ["begun", "over"]
    assert len(rebuild.said) == 2


async def test_of_a_short_rebuild_nothing_is_said() -> None:
    rebuild = Rebuild(first_seconds=PATIENCE)
    async with rebuild.progress.reporting():
        rebuild.environment.rerunning = ExecutionId("ex3")
        await anyio.lowlevel.checkpoint()
    assert not rebuild.said
