"""What is sent of a history at once, what a worker may say while it runs again, and which copies count."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path

import anyio
import pytest
from msgspec import Raw
from msgspec.structs import replace

from engine.core.ids import BlobDigest, ExecutionId
from engine.log.past import PastExecution, PastLooks, PastRevision, PastStep, PastTick, PastValues, RestorePlan
from engine.log.redaction import NO_SECRETS
from engine.log.statements import RunRequest
from engine.runtime.connection import Capture, Connection
from engine.runtime.control_channel import Death, MessageReader
from engine.runtime.environment import EnvironmentSpec, Limits
from engine.runtime.rebuild import Rebuild
from engine.runtime.rebuild_contents import EARLIER, NOT_KEPT, KeptValues, PastContents
from engine.runtime.replay_run import STRETCH_BYTES, Prepared, ReplayPrefetch, ReplayRun, replay_messages
from engine.runtime.worker.framing import frame
from engine.runtime.worker.protocol import Began, BroughtBack, CleanedUp, Ran, Replay, Replayed, Started, ToWorker
from tests.support.environments import PATIENCE, contents, ended_otherwise, kept, past
from tests.support.in_process import ThreadConnection

SIZE = 100_000


def ahead(steps: Sequence[PastStep], alone: Collection[int] = ()) -> ReplayPrefetch:
    return ReplayPrefetch(steps, PastContents(contents, steps), alone, ())


async def stretches(all_ahead: ReplayPrefetch, count: int) -> list[list[int]]:
    """The positions in each stretch; an empty one is a step of the host's."""
    found: list[list[int]] = []
    while all_ahead.position < count:
        await all_ahead.prepare()
        taken = all_ahead.take()
        if not taken:
            all_ahead.skip()
        found.append([prepared.position for prepared in taken])
    return found


def seen(number: int) -> PastRevision:
    data = f"{number:07}".encode() * (SIZE // 7)
    return PastRevision(path="/f", look=0, state="text", digest=f"d{number}", size=len(data), content=kept(data))


async def test_stretches_begin_short_and_are_bounded() -> None:
    steps = [past("x = 1") for _ in range(300)]
    found = await stretches(ahead(steps), len(steps))
    assert [position for stretch in found for position in stretch] == list(range(300))
    assert [len(stretch) for stretch in found][:4] == [8, 16, 32, 64]
    assert max(len(stretch) for stretch in found) == 64


@pytest.mark.parametrize("kind", ["sources", "contents"])
async def test_a_stretch_is_of_a_bounded_number_of_bytes(kind: str) -> None:
    large: list[PastStep] = [
        past("#" * SIZE) if kind == "sources" else PastTick(round_id=n, now=1.0, revisions=(seen(n),))
        for n in range(40)
    ]
    whole = ahead(large)
    sizes: list[int] = []
    while whole.position < len(large):
        await whole.prepare()
        taken = whole.take()
        sizes.append(sum(prepared.size for prepared in taken))
        # What waits meanwhile is bounded as well.
        await whole.prepare()
    assert SIZE < max(sizes) <= STRETCH_BYTES
    (first, *_) = await stretches(ahead([past("#" * 3 * STRETCH_BYTES), past("x = 1")]), 2)
    assert first == [0]


async def test_rest_of_a_stretch_begins_the_next() -> None:
    steps: list[PastStep] = [PastTick(round_id=n, now=1.0, revisions=(seen(100 + n),)) for n in range(6)]
    whole = ahead(steps)
    await whole.prepare()
    taken = whole.take()
    sent = [content.digest for prepared in taken for content in prepared.contents]
    assert sent == [f"d{100 + n}" for n in range(6)]
    before, replay = replay_messages(taken)
    assert not before
    assert [content.digest for content in replay.contents] == sent
    whole.put_back(taken[2:])
    assert whole.position == 2
    again: list[Prepared] = []
    while whole.position < len(steps):
        await whole.prepare()
        again += whole.take()
    assert [prepared.position for prepared in again] == [2, 3, 4, 5]
    assert all(not prepared.contents for prepared in again)


async def test_too_many_contents_of_one_step_go_ahead_of_it() -> None:
    files = tuple(replace(seen(n), path=f"/{n}") for n in range(300, 300 + 2 * STRETCH_BYTES // SIZE))
    whole = ahead([PastTick(round_id=0, now=1.0, revisions=files), PastTick(round_id=1, now=2.0)])
    await whole.prepare()
    before, replay = replay_messages(whole.take())
    assert [content.digest for content in before] == [look.digest for look in files]
    assert len(replay.steps) == 1
    assert not replay.contents


async def test_steps_of_the_host_stand_between_stretches() -> None:
    looks = PastLooks(revisions=(seen(200),))
    unknown = replace(past("x = 1"), record=None)
    stopped = past("x = 1", "cancelled")
    steps: list[PastStep] = [past("x = 1"), looks, unknown, past("x = 1"), stopped, past("x = 1"), past("x = 1")]
    assert await stretches(ahead(steps, alone=[5]), len(steps)) == [[0, 1], [], [3], [], [], [6]]
    assert isinstance(steps[0], PastExecution)


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
        return frame(self._said.popleft())[4:] if self._said else None

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


ONE, TWO = past("x = 1", time_limit=0.4), past("y = 2", time_limit=5.0)
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


async def test_timely_interrupt_is_forgotten_first() -> None:
    worker = Scripted([Began(0)], on_interrupt=[ran(ONE), CleanedUp()])
    run, _ = await conducted(worker, ONE, TICK, TWO)
    assert (run.came.status, run.over, worker.dead) == ("timeout", 1, False)
    assert type(worker.got[-1]).__name__ == "CleanUp"


class Noting(ThreadConnection):
    """Notes what it is sent."""

    def __init__(self, cwd: Path) -> None:
        super().__init__(EnvironmentSpec(cwd=str(cwd), redactor=NO_SECRETS), len)
        self.got: list[object] = []

    def send(self, message: ToWorker) -> None:
        self.got.append(message)
        super().send(message)


async def test_after_an_unclear_attempt_each_step_runs_alone(tmp_path: Path) -> None:
    workers: list[Scripted | Noting] = []

    async def start() -> Connection:
        if not workers:
            workers.append(Scripted([Began(0)], on_interrupt=[Began(1)]))
        else:
            workers.append(Noting(tmp_path))
            assert isinstance(await workers[-1].first(), Started)
        return workers[-1]

    with anyio.fail_after(PATIENCE):
        rebuild = Rebuild(start, Limits(), contents, ended_otherwise, lambda past: None)
        restored = await rebuild.run(RestorePlan(steps=(ONE, TWO)))
    await workers[-1].kill()
    for worker in workers:
        worker.close()
    assert (restored.executions, restored.divergences) == (2, ())
    assert [any(isinstance(message, Replay) for message in worker.got) for worker in workers] == [True, False]


def group(content: str, *names: str) -> PastValues:
    return PastValues(names=names, content=BlobDigest(content))


def step(*kept: PastValues, bound: str = "", unbound: str = "", unkept: dict[str, str] | None = None) -> PastExecution:
    return PastExecution(
        request=RunRequest(execution_id=ExecutionId("e"), label="", source=""),
        status="ok",
        bound=tuple(bound),
        unbound=tuple(unbound),
        kept=kept,
        unkept=unkept or {},
    )


def after(*steps: PastExecution) -> KeptValues:
    values = KeptValues()
    for each in steps:
        values.take(each)
    return values


def test_the_newest_copy_of_a_name_counts() -> None:
    first, second = group("1", "a"), group("2", "a")
    assert after(step(first, bound="a"), step(second, bound="a")).wanted("a").groups == {second: ("a",)}


def test_name_comes_with_those_of_its_newest_group() -> None:
    first, second = group("1", "a", "b", "c"), group("2", "c")
    found = after(step(first, bound="abc"), step(second, bound="c")).wanted("a")
    assert found.groups == {first: ("a", "b")}


def test_deleted_name_does_not_come_with_the_others() -> None:
    first = group("1", "a", "b", "c")
    values = after(step(first, bound="abc"), step(unbound="b"))
    assert values.wanted("a").groups == {first: ("a", "c")}
    assert values.wanted("ab").delete == ("b",)
    values.take(step(bound="b"))
    assert values.wanted("a").groups == {first: ("a", "c")}, "what it is now is no longer the copy"


def test_bound_name_that_was_not_kept_has_no_copy() -> None:
    values = after(step(group("1", "a"), bound="a"), step(bound="a"))
    assert values.wanted("a").groups == {}
    assert values.wanted("a").without == {"a": NOT_KEPT}


def test_earlier_log_version_is_the_reason() -> None:
    assert after(replace(step(bound="a"), revisions=None)).wanted("a").without == {"a": EARLIER}


def test_reason_for_a_missing_copy_is_the_latest() -> None:
    values = after(step(bound="a", unkept={"a": "too large"}), step(unkept={"a": "it hangs"}))
    assert values.wanted("a").without == {"a": "it hangs"}


def test_lost_copy_is_not_replaced_by_an_older_one() -> None:
    values = after(step(group("1", "a", "b"), bound="ab"), step(unkept={"a": "too large"}))
    assert values.wanted("ab").groups == {group("1", "a", "b"): ("b",)}
    assert values.wanted("ab").without == {"a": "too large"}


def test_what_the_record_does_not_have_is_deleted() -> None:
    values = after(step(group("1", "a"), bound="a"), step(unbound="a"))
    assert values.wanted("az").delete == ("a", "z")


def test_unchanged_name_is_set_only_with_others() -> None:
    values = after(step(group("1", "a", "b"), bound="abc"))
    assert values.wanted("ac", found="ac").groups == {}
    assert values.wanted("ac", found="ac").without == {}
    assert values.wanted("ab", found="a").groups == {group("1", "a", "b"): ("a", "b")}
