"""Whatever is done with a timeline, its namespace, its View and its files are what its path says.

A random session is held to a model that executes the statements of its path from scratch, in plain Python: statements
run, are stopped, edited, replayed, left out; the session goes back, over to another branch, loses its worker or its
process. After each step everything is looked at. What comes out differently has to be planted: a file that somebody
else changes, and what is drawn at random. It is told once; nothing else is ever told.
"""

from __future__ import annotations

import os
import re
import signal
from ast import literal_eval
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from engine import EditMode, Environment, OutputStreamed, ReplayMode, ReplayReport, RunRequest, Session, Sessions
from engine.environment.in_process import InProcessEnvironment
from engine.environment.worker_environment import WorkerEnvironment
from engine.errors import InvalidRequestError
from engine.events.execution import ExecutionFinished
from engine.events.replays import Diverged
from engine.events.session import EnvironmentRestored
from engine.ids import ExecutionId, SessionId
from engine.store.memory import MemoryStore
from tests.engine.sessions.test_one_truth import assert_one
from tests.support import timeline_model as model
from tests.support.examples import examples
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.sessions import sessions_of
from tests.support.timeline_model import Omitted, Ran, Replayed, Space, Step, World
from tests.support.timeline_model import Path as Timeline
from tests.support.workers import gone, shared_zygote

T = TypeVar("T")
_FILES = ("in-a", "in-b")
_PROBE = """
def _shown(value):
    if type(value).__name__ == "generator":
        frame = value.gi_frame
        return f"generator at {frame.f_locals.get('n') if frame else 'its end'}"
    return f"function of {value()}" if callable(value) else repr(value)
print({n: _shown(v) for n, v in sorted(globals().items()) if n.rstrip("0123") in tuple("xltrnfgs")})
del _shown
"""
_NUMBER = re.compile(r"statement (\d+)")
_OTHER = re.compile("is left out, as the user asked|was stopped")
"""Sentences on what does not run again."""
_numbers = st.integers(0, 40)
_x, _l, _c, _k = st.sampled_from("012"), st.sampled_from("01"), st.integers(0, 3), st.sampled_from("ab")


def _of(template: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.builds(template.format, *parts)


_SOURCES = st.one_of(
    _of("x{} = {}", _x, _c),
    _of("x{} = x{}", _x, _x),
    _of("x{} += {}", _x, _c),
    _of("l{} = [{}]", _l, _c),
    _of("l{}.append(x{})", _l, _x),
    _of("l{} = l{}", _l, _l),
    _of("def f{}(): return {}", _l, _c),
    _of("x{} = f{}()", _x, _l),
    _of("g0 = (n for n in range({}))", _c),
    _of("x{} = next(g0)", _x),
    _of("print(x{}, l{})", _x, _l),
    _of("del x{}", _x),
    _of("x{} = {}; 1 / 0", _x, _c),
    _of("t{} = read('in-{}')", _l, _k),
    _of("with open('in-{1}') as _: t{0} = _.read()\ndel _", _l, _k),
    st.just("r0 = __import__('os').urandom(4).hex()"),
    _of("write('out-{}', str(x{})); None", _k, _x),
    _of("s0 = str(x{})\nwith open('out-{}', 'w') as _: n0 = _.write(s0)\ndel _", _x, _k),
    _of("s1 = str(x{})\nn1 = __import__('pathlib').Path('out-{}').write_text(s1)", _x, _k),
)


class TimelineMachine(RuleBasedStateMachine):
    """One session over its lives, beside what it is to be."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        root = Path(self._stack.enter_context(TemporaryDirectory()))
        self._project, self._state = root / "project", root / "state"
        self._project.mkdir()
        self._stack.callback(os.chdir, os.getcwd())
        os.chdir(self._project)
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._store = MemoryStore(FixedClock())
        self._entropy = CountingEntropy()
        self._environments: list[Environment] = []
        self._life = ExitStack()
        self._sessions: Sessions
        self._session: Session
        self._told = 0
        """The position of the log as far as what was told has been looked at."""
        self._not_rebuilt: set[int] = set()
        """The numbers of the statements that were no part of the rebuild in the last step, if there was one."""
        self.world = World()
        self.path: Timeline = ()
        self.left: dict[str, tuple[Timeline, Mapping[str, str]]] = {}
        """The other branches: what they are, and what was on the disk when they were left."""

    # --- lives --------------------------------------------------------------------------------------------------------

    def environment(self) -> Environment:
        made = InProcessEnvironment(len)
        self._environments.append(made)
        return made

    @initialize()
    def begin(self) -> None:
        for name in _FILES:
            self._put(name, "0")
        self._open()

    def _open(self, session_id: SessionId | None = None) -> None:
        opened = sessions_of(
            self._state, self._store, environments=self.environment, entropy=self._entropy, settings={}
        )
        self._sessions = self._life.enter_context(self._portal.wrap_async_context_manager(opened))
        if session_id is None:
            self._session = self._wait(lambda: self._sessions.create(str(self._project)))
        else:
            self._session = self._wait(lambda: self._sessions.load(session_id))

    def _wait(self, act: Callable[[], Awaitable[T]]) -> T:
        async def awaited() -> T:
            return await act()

        return self._portal.call(awaited)

    def teardown(self) -> None:
        with self._stack, self._life:
            """Closes the session, then what it stands on."""

    # --- what is done -------------------------------------------------------------------------------------------------

    @rule(source=_SOURCES, asked=st.booleans())
    def run(self, source: str, asked: bool) -> None:
        if asked:
            self._say(source)
        else:
            self._wait(lambda: self._session.cell(source))
        (finished,) = self._finished()
        self._ran(source, finished)
        self._check()

    @rule(x=_x, c=_c, cancelled=st.booleans())
    def run_what_is_stopped(self, x: str, c: int, cancelled: bool) -> None:
        source = f"x{x} = {c}{model.STOPS}"

        async def cancel() -> None:
            subscription = self._session.subscribe()
            ticket = self._session.accept(f"/run {source}")
            async for batch in subscription.batches(pace=0):
                if any(isinstance(each, OutputStreamed) and model.BEGUN in each.text for each in batch):
                    break
            self._session.cancel()
            await ticket.end()

        if cancelled:
            self._wait(cancel)
        else:
            self._wait(lambda: self._session.cell(source, seconds=0.1))
        (finished,) = self._finished()
        self._ran(source, finished)
        self._check()

    @rule(name=st.sampled_from(_FILES), text=st.sampled_from("012"))
    def change_a_file(self, name: str, text: str) -> None:
        self._put(name, text)
        self._check()

    @precondition(lambda self: self.path)
    @rule(k=_numbers, source=_SOURCES, last=st.none() | _numbers, live=st.booleans())
    def edit(self, k: int, source: str, last: int | None, live: bool) -> None:
        count = model.count_of(self.path)
        k = 1 + k % count
        last = None if last is None else k + last % (count - k + 1)
        mode: EditMode = "live" if live else "recorded"
        left = self._active()
        old = [step for step in self._steps() if k <= step.index <= (last or count)]
        edited = old[0]
        runs = [edited, *(step for step in old[1:] if not step.omitted and not step.is_stopped)]
        self._leave(left)
        report = self._wait(lambda: self._session.edit(k, source, last, mode))
        finished = self._finished()
        assert len(finished) == len(runs), (report, finished)
        self.path = model.before(self.path, k)
        certain: set[int] = set()
        possible: set[int] = set()
        for step, ended in zip(runs, finished, strict=True):
            text = source if step is edited else step.source
            asks = () if step.is_stopped else [ask for ask in step.outcome.asked if ask.what not in model.OWN]
            new = self._ran(text, ended, None if live else asks)
            self._sort(new.index, model.differs(step.outcome, new.outcome), certain, possible)
            self._not_rebuilt.add(new.index)
        self._compare(report, certain, possible)
        self._check()

    @precondition(lambda self: self.path)
    @rule(first=_numbers, last=_numbers, mode=st.sampled_from(["recorded", "dry", "live"]))
    def replay(self, first: int, last: int, mode: ReplayMode) -> None:
        count = model.count_of(self.path)
        first = 1 + first % count
        last = first + last % (count - first + 1)
        steps = self._steps()
        meant = [step for step in steps if first <= step.index <= last and not step.omitted and not step.is_stopped]
        if mode == "live" and any(step.may_act for step in steps if step.index > last):
            last = count
            meant = [step for step in steps if first <= step.index <= last and not step.omitted and not step.is_stopped]
        if not meant:
            with pytest.raises(InvalidRequestError, match="Nothing can run again"):
                self._wait(lambda: self._session.replay(first, last, mode))
            self._check()
            return
        if mode == "live":
            self._replay_live(first, last, meant)
        else:
            self._replay_recorded(first, last, mode, meant)
        self._check()

    def _replay_live(self, first: int, last: int, meant: Sequence[Step]) -> None:
        report = self._wait(lambda: self._session.replay(first, last, "live"))
        finished = self._finished()
        assert (report.outcome, len(finished)) == ("completed", len(meant)), report
        space = Space(self.world)
        list(model.played(space, [step for step in self._steps() if step.index < first]))
        certain: set[int] = set()
        possible: set[int] = set()
        new: list[Step] = []
        for step, ended in zip(meant, finished, strict=True):
            outcome = space.now(step.source, ended.status, _drawn(ended))
            _assert_alike(ended, outcome)
            new.append(Step(step.index, step.source, outcome, model.left_out(self._steps(), step.index)))
            self._sort(step.index, model.differs(step.outcome, outcome), certain, possible)
        self.path = (*self.path, Replayed(first, last, tuple(new)))
        self._compare(report, certain, possible)
        if last == model.count_of(self.path):
            self._not_rebuilt = {*range(first, last + 1)}

    def _replay_recorded(self, first: int, last: int, mode: ReplayMode, meant: Sequence[Step]) -> None:
        report = self._wait(lambda: self._session.replay(first, last, mode))
        if mode == "dry":
            acting = (place for place, step in enumerate(meant, 1) if step.acts)
            meant = meant[: next(acting, len(meant))]
        assert (report.outcome, len(self._finished())) == ("completed", len(meant)), report
        certain, possible = model.differing(self.path, self.world)
        if mode == "dry" and meant[-1].acts:
            certain.add(meant[-1].index)
        numbers = {step.index for step in meant}
        self._compare(report, certain & numbers, possible & numbers)
        if mode == "recorded":  # a dry one ends before the namespace is whole
            self._not_rebuilt = {*range(first, last + 1)}

    @rule(k=_numbers, files=st.booleans(), conversation=st.booleans())
    def rewind(self, k: int, files: bool, conversation: bool) -> None:
        k %= model.count_of(self.path) + 1
        self._rewound(k, files, conversation)
        self._wait(lambda: self._session.rewind(k, files=files, conversation=conversation))
        self._check()

    def _rewound(self, k: int, files: bool, conversation: bool) -> None:
        target = model.cut(self.path, k)
        disk = target[-1].disk if target and isinstance(target[-1], Ran) else {}
        if conversation:
            self._leave(self._active())
            self.path = target
        else:
            omitted = [Omitted(step.index, True) for step in self._steps() if step.index > k and not step.omitted]
            self.path = (*self.path, *omitted)
        if files:
            self.world.put_back(disk)

    @precondition(lambda self: self.left)
    @rule(which=_numbers, files=st.booleans())
    def switch(self, which: int, files: bool) -> None:
        name = sorted(self.left)[which % len(self.left)]
        self._leave(self._active())
        self.path, disk = self.left.pop(name)
        if files:
            self.world.put_back(disk)
        self._wait(lambda: self._session.switch(name, files=files))
        self._check()

    @precondition(lambda self: self.path)
    @rule(k=_numbers)
    def omit(self, k: int) -> None:
        k = 1 + k % model.count_of(self.path)
        steps = self._steps()
        step = next((step for step in steps if step.index == k), None)
        if step is None or any(each.may_act for each in steps if each.index > k):
            return
        self._say(f"/omit {k}")
        self.path = (*self.path, Omitted(k, not step.omitted))
        self._check()

    @rule(first=_SOURCES, second=_SOURCES, k=_numbers, withdrawn=st.booleans())
    def queue(self, first: str, second: str, k: int, withdrawn: bool) -> None:
        """A statement, a way back and another statement wait at once; the last one is perhaps withdrawn."""
        k %= model.count_of(self.path) + 2

        async def act() -> None:
            tickets = [self._session.accept(text) for text in (f"/run {first}", f"/rewind {k}", f"/run {second}")]
            if withdrawn:
                self._session.cancel(tickets[-1])
            for ticket in tickets:
                await ticket.end()

        active = self._active()
        self._wait(act)
        finished = self._finished()
        assert len(finished) == 2 - withdrawn
        self._ran(first, finished[0])
        target = model.cut(self.path, k)
        self.left[active] = (self.path, self.world.written)
        self.path = target
        self.world.put_back(target[-1].disk if target and isinstance(target[-1], Ran) else {})
        if not withdrawn:
            self._not_rebuilt = {self._ran(second, finished[1]).index}
        self._check()

    @rule()
    def compact(self) -> None:
        self._say("/compact")
        self._check()

    @rule()
    def lose_the_worker(self) -> None:
        self._wait(self._end_worker)
        self._check()

    async def _end_worker(self) -> None:
        environment = self._environments[-1] if self._environments else None
        if environment is not None and environment.alive:
            await environment.end()

    @rule()
    def rest(self) -> None:
        self._wait(self._session.rest)
        self._check()

    @rule()
    def open_again(self) -> None:
        async def again() -> Session:
            await self._sessions.close(self._session.session_id)
            return await self._sessions.load(self._session.session_id)

        self._session = self._wait(again)
        self._check()

    @rule()
    def lose_the_process(self) -> None:
        survived = _copied(self._store, self._session)
        session_id = self._session.session_id
        self._life.close()
        self._store = survived
        self._open(session_id)
        self._check()

    # --- what there is then -------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._steps():
            self._wait(self._session.look)
            printed = self._wait(self._probe)
            assert literal_eval(printed) == model.namespace_of(self.path, self.world), self.path
        files = {path.name: path.read_text() for path in self._project.iterdir()}
        assert files == self.world.files
        assert len(self._session.cells) == model.count_of(self.path)
        self._wait(lambda: self._session.durable(self._session.position - 1))
        stored = self._store.load(self._session.session_id)
        assert_one(self._session.events, self._session.view, tuple(stored))
        certain, possible = (found - self._not_rebuilt for found in model.differing(self.path, self.world))
        self._not_rebuilt = set()
        restored = [event for event in self._session.since(self._told) if isinstance(event, EnvironmentRestored)]
        for event in restored[-1:]:
            sentences = [text for text in event.divergences if not _OTHER.search(text)]
            told = [int(found) for text in sentences for found in _NUMBER.findall(text)[:1]]
            assert len(sentences) == len(set(sentences)), event.divergences
            assert certain <= set(told) <= certain | possible, (event.divergences, certain, possible)
        self._told = self._session.position

    async def _probe(self) -> str:
        async def refuse(_: object) -> Any:
            raise AssertionError("the probe asks for nothing")

        request = RunRequest(execution_id=ExecutionId("probe"), label="<probe>", source=_PROBE)
        outcome = await self._environments[-1].run(request, refuse, lambda stream, text: None)
        assert outcome.exception is None, outcome.exception
        return outcome.stdout.text

    # --- parts of steps -----------------------------------------------------------------------------------------------

    def _steps(self) -> list[Step]:
        return model.steps_of(self.path)

    def _active(self) -> str:
        return next(row.name for row in self._session.branches if row.is_active)

    def _leave(self, branch: str) -> None:
        self.left[branch] = (self.path, self.world.written)

    def _put(self, name: str, text: str) -> None:
        (self._project / name).write_text(text)
        self.world.files[name] = text

    def _say(self, text: str) -> None:
        async def said() -> None:
            await self._session.accept(text).end()

        self._wait(said)

    def _finished(self) -> list[ExecutionFinished]:
        """The executions since the last look."""
        return [event for event in self._session.since(self._told) if isinstance(event, ExecutionFinished)]

    def _ran(self, source: str, finished: ExecutionFinished, recorded: Sequence[model.Ask] | None = None) -> Step:
        """A statement has run at the end of the path."""
        space = Space(self.world)
        list(model.played(space, self._steps()))
        if recorded is None:
            outcome = space.now(source, finished.status, _drawn(finished))
        else:
            outcome = space.instead(source, finished.status, _drawn(finished), recorded)
        _assert_alike(finished, outcome)
        index, steps = model.count_of(self.path) + 1, self._steps()
        step = Step(index, source, outcome, model.left_out(steps, index))
        self.path = (*self.path, Ran(step, self.world.written))
        return step

    def _sort(self, number: int, differs: bool | None, certain: set[int], possible: set[int]) -> None:
        if differs is None:
            possible.add(number)
        elif differs:
            certain.add(number)

    def _compare(self, report: ReplayReport, certain: set[int], possible: set[int]) -> None:
        told = [(each.statement, each.aspect) for each in report.divergences]
        assert len(told) == len(set(told))
        numbers = {number for number, _ in told}
        assert certain <= numbers <= certain | possible, (report.divergences, certain, possible)
        on_log = [event for event in self._session.since(self._told) if isinstance(event, Diverged)]
        assert len(on_log) == len(report.divergences)


def _drawn(finished: ExecutionFinished) -> str:
    diff = finished.diff
    info = diff.added.get("r0") or (diff.changed["r0"].after if "r0" in diff.changed else None)
    return "" if info is None else literal_eval(info.short_repr)


def _assert_alike(finished: ExecutionFinished, outcome: model.Outcome) -> None:
    """What was recorded is what the model came to."""
    exception = finished.exception
    message = "" if exception is None else f"{exception.type}: {exception.message}"
    if not outcome.exception.startswith(model.REFUSED):
        assert message == outcome.exception or finished.status in ("timeout", "cancelled"), (message, outcome)
    assert (finished.status, finished.stdout.text) == (outcome.status, outcome.stdout), (finished, outcome)


def _copied(store: MemoryStore, session: Session) -> MemoryStore:
    """What is left of a store when its process is killed now."""
    session_id, copy = session.session_id, MemoryStore(FixedClock())
    copy.create(store.row(session_id))
    copy.acquire(session_id, lambda seq, error: None)
    for digest in store.contents(session_id):
        copy.blob_put(store.blob_get(digest))
    for event in store.load(session_id):
        copy.submit(session_id, event)
    copy.release(session_id)
    return copy


class WorkerMachine(TimelineMachine):
    """The same over real workers, which are killed."""

    def environment(self) -> Environment:
        made = WorkerEnvironment(shared_zygote())
        self._environments.append(made)
        return made

    async def _end_worker(self) -> None:
        environment = self._environments[-1] if self._environments else None
        if isinstance(environment, WorkerEnvironment) and environment.pid is not None:
            os.kill(environment.pid, signal.SIGKILL)
            await gone(environment.pid)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "times"), [(TimelineMachine, 3), (WorkerMachine, 0.5)])
def test_whatever_is_done_the_namespace_the_view_and_the_files_are_what_the_path_says(
    machine: type[TimelineMachine], times: float
) -> None:
    run_state_machine_as_test(machine, settings=settings(examples(times), stateful_step_count=50))
