"""What a worker may say while a history runs again, and what is made of an interrupt that met the wrong statement."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio
import pytest
from msgspec import Raw

from engine.log.past import PastExecution, PastTick, RestorePlan
from engine.log.redaction import NO_SECRETS
from engine.runtime.connection import Capture, Connection
from engine.runtime.control_channel import Death, MessageReader
from engine.runtime.environment import EnvironmentSpec, Limits
from engine.runtime.rebuild import Rebuild
from engine.runtime.replay_run import Prepared, ReplayRun
from engine.runtime.worker.framing import frame
from engine.runtime.worker.protocol import Began, BroughtBack, CleanedUp, Ran, Replayed, Started, ToWorker
from tests.support.environments import PATIENCE, contents, ended_otherwise, past
from tests.support.in_process import ThreadConnection

pytestmark = pytest.mark.anyio


class Scripted(Connection):
    """A worker that says what it is given: at once, or (`on_interrupt`) when it is interrupted."""

    def __init__(self, said: Sequence[object], on_interrupt: Sequence[object] = ()) -> None:
        super().__init__(MessageReader(NO_SECRETS))
        self._said = deque(said)
        self._on_interrupt = deque(on_interrupt)
        self._more = anyio.Event()
        self.got: list[ToWorker] = []

    def send(self, message: ToWorker) -> None:
        self.got.append(message)

    def interrupt(self) -> None:
        self._said.extend(self._on_interrupt)
        self._on_interrupt.clear()

    def begin_capture(self, stdout: Capture, stderr: Capture) -> None: ...

    def drain(self) -> None: ...

    def look(self) -> bool:
        return not self.dead

    def end(self) -> None:
        self._death = Death("it was ended")
        self._more.set()

    def close(self) -> None:
        self._closed = True

    async def acknowledged(self) -> None: ...

    async def _progress(self) -> None:
        await self._more.wait()

    def _next_body(self) -> bytes | None:
        return frame(self._said.popleft())[4:] if self._said else None  # pyright: ignore[reportArgumentType] -- what a worker says

    def _stop_reading(self) -> None:
        self._said.clear()

    def _death_seconds(self) -> float:
        return 0.0

    def _give_up(self) -> Death:
        return Death("it was given up")


def prepared(*steps: PastExecution | PastTick) -> list[Prepared]:
    return [Prepared(position, step, Raw(b"\xc0")) for position, step in enumerate(steps)]


async def nothing() -> None: ...


async def conducted(worker: Scripted, *steps: PastExecution | PastTick) -> tuple[ReplayRun, list[str]]:
    brought: list[str] = []
    run = ReplayRun(
        worker,
        prepared(*steps),
        Limits(grace_seconds=0.1),
        lambda prepared, outcome, failures: brought.append(outcome.status),
        nothing,
        lambda past: None,
    )
    with anyio.fail_after(PATIENCE):
        await run.conduct()
    return run, brought


def ran(step: PastExecution) -> Ran:
    return Ran(execution_id=step.request.execution_id, status="ok")


ONE, TWO = past("x = 1", time_limit=0.05), past("y = 2", time_limit=5.0)
TICK = PastTick(round_id=1, now=1.0)
LIES: dict[str, list[object]] = {
    "a step that is not there": [Began(3)],
    "a step again": [Began(0), Began(0)],
    "a step before": [Began(1), Began(0)],
    "loading of another step": [Began(0), Began(2, loading=True)],
    "a tick": [Began(0), Began(1)],
    "loading for a tick": [Began(0), Began(1, loading=True)],
    "loading before anything": [Began(-1, loading=True)],
    "more than there is": [Replayed(4)],
    "less than it began": [Began(0), Began(2), Replayed(1)],
    "a result of nothing": [ran(ONE)],
    "a result of a tick": [Ran(execution_id="", status="ok")],
    "a result of another": [Began(0), ran(TWO)],
    "names of nothing": [BroughtBack(ran(ONE), {})],
    "names of another": [Began(0), BroughtBack(ran(TWO), {})],
    "no answer to this": [Started()],
}


@pytest.mark.parametrize("what", LIES)
async def test_a_worker_that_says_what_cannot_be_is_ended(what: str) -> None:
    worker = Scripted(LIES[what])
    run, _ = await conducted(worker, ONE, TICK, TWO)
    assert worker.dead
    assert (run.came, run.is_unclear) == (None, False)


async def test_what_was_begun_last_is_what_ended_the_worker() -> None:
    worker = Scripted([Began(0), BroughtBack(ran(ONE), {}), Began(2), Started()])
    run, brought = await conducted(worker, ONE, TICK, TWO)
    assert (worker.dead, brought) == (True, ["ok"])
    assert [each.position for each in run.begun] == [0, 1, 2]


async def test_an_interrupt_that_met_the_next_statement_makes_both_unclear() -> None:
    worker = Scripted([Began(0)], on_interrupt=[Began(2)])
    run, _ = await conducted(worker, ONE, TICK, TWO)
    assert run.is_unclear
    assert worker.dead


async def test_an_interrupt_that_came_in_time_is_forgotten_before_anything_else() -> None:
    worker = Scripted([Began(0)], on_interrupt=[ran(ONE), CleanedUp()])
    run, _ = await conducted(worker, ONE, TICK, TWO)
    assert run.came is not None
    assert (run.came.status, run.over, worker.dead) == ("timeout", 1, False)
    assert type(worker.got[-1]).__name__ == "CleanUp"


async def test_after_an_unclear_attempt_each_step_is_asked_for_by_itself(tmp_path: object) -> None:
    workers: list[Connection] = []

    async def start() -> Connection:
        if not workers:
            workers.append(Scripted([Began(0)], on_interrupt=[Began(1)]))
        else:
            workers.append(ThreadConnection(EnvironmentSpec(cwd=str(tmp_path), redactor=NO_SECRETS), len))
            assert isinstance(await workers[-1].first(), Started)
        return workers[-1]

    with anyio.fail_after(PATIENCE):
        rebuild = Rebuild(start, Limits(), contents, ended_otherwise, lambda past: None)
        restored = await rebuild.run(RestorePlan(steps=(ONE, TWO)))
    await workers[-1].kill()
    for worker in workers:
        worker.close()
    assert (restored.executions, restored.divergences, len(workers)) == (2, (), 2)
