"""Whatever is done with a timeline, its namespace, its View and its files are what its path says.

A random session is held to a model that executes the statements of its path from scratch, in plain Python: statements
run, are stopped, edited, replayed, left out; the session goes back, over to another branch, loses its worker or its
process, also in the middle of all that. After each step everything is looked at. What comes out differently has to be
planted: a file that somebody else changes, what is drawn at random, the time, and another answer of the user's. It is
told once; nothing else is ever told. More than 300 lines, because the rules act on one state and stand side by side.
"""

from __future__ import annotations

import os
import re
import signal
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from engine import OutputStreamed, ReplayReport
from engine.context.view import ViewFold, Window
from engine.core.errors import InvalidRequestError, StatementWithdrawnError
from engine.core.execution import INTERRUPTED, WORKER_DIED, ReplayMode
from engine.core.toolbox import STALE
from engine.log import event_log
from engine.log.branches import branches_of, path_of
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.execution import ExecutionFinished
from engine.log.events.going_back import Diverged, ReplayEnded
from engine.log.events.session import EnvironmentRestored
from engine.runtime import checkpoints
from engine.runtime.worker_environment import WorkerEnvironment
from engine.session import saved_state
from engine.session.live_environment import INTERRUPTED_SENTENCE
from engine.session.requests import EditMode
from tests.support import timeline_model as model
from tests.support.examples import examples
from tests.support.timeline_life import Life, Moment, Watch, Watched, WatchedInProcess, WatchedWorker
from tests.support.timeline_model import Omitted, Ran, Replayed, Step, Ticked
from tests.support.timeline_model import Path as Timeline
from tests.support.timeline_space import BEGUN, OWN, REFUSED, STOPS, Ask, Outcome, Space
from tests.support.timeline_world import World
from tests.support.workers import gone

Author = Literal["cell", "prompt", "model"]
"""A statement comes as a cell, as the command `/run`, or from a model."""
Breach = tuple[Literal["cancel", "kill"], int]
"""What ends something in the middle, at the n-th statement of it."""
_FILES = ("in-a", "in-b")
_NUMBER = re.compile(r"statement (\d+)")
_OTHER = re.compile(f"is left out, as the user asked|was stopped|{re.escape(INTERRUPTED_SENTENCE)}")
"""Sentences on what does not run again."""
_DRAWN: Final = {"r0": "urandom", "r1": "time_ns"}
"""The names that hold what is drawn, and what that is drawn by."""
_FROM_CHECKPOINT: Final = "from a checkpoint"
"""How a step ends in which, or after which, the names came back so."""
_numbers = st.integers(0, 40)
_x, _l, _c, _k = st.sampled_from("012"), st.sampled_from("01"), st.integers(0, 3), st.sampled_from("ab")
_breaches = st.none() | st.tuples(st.sampled_from(["cancel", "kill"]), st.integers(1, 3))


def _of(template: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.builds(template.format, *parts)


_SOURCES = st.one_of(
    st.just("x0 = x1 = x2 = 1; l0 = l1 = []"),
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
    st.just("r1 = __import__('time').time_ns()"),
    _of("write('out-{}', str(x{})); None", _k, _x),
    _of("s0 = str(x{})\nwith open('out-{}', 'w') as _: n0 = _.write(s0)\ndel _", _x, _k),
    _of("s1 = str(x{})\nn1 = __import__('pathlib').Path('out-{}').write_text(s1)", _x, _k),
    _of("v{} = view('in-{}').Run()", _l, _k),
    _of("v{} = view('in-{}'); h0 = group(v{})", _l, _k, _l),
    _of("v{} = v{}", _l, _l),
    _of("v{}.{}(); None", _l, st.sampled_from(["Run", "Pause"])),
    st.just("v0 = view('in-a').Run(); v1 = view('in-b'); h0 = group(v0, v1)"),
)


def _assert_one(events: Sequence[Event], view: Window, stored: Sequence[Event]) -> None:
    """Log, store and View say the same, in every reading of the View, and each branch is in order, active or not."""
    branches = branches_of(events)
    for branch in branches.all:
        assert not cycles_of(branches.path(events, branch.name)).anomalies, branch
    again = ViewFold()
    for event in path_of(events):
        again.apply(event)
    assert tuple(stored) == tuple(events)
    for reading in ("events", "indices", "batches", "tool_loop_ranges", "unhandled_condensation_request"):
        assert getattr(view, reading) == getattr(again.view, reading)
    assert view.ready(open_run=True) == again.view.ready(open_run=True)


class TimelineMachine(RuleBasedStateMachine):
    """One session over its lives, beside what it is to be."""

    settings: ClassVar[Mapping[str, object]] = MappingProxyType({"restore_by": "re-execution"})
    reached: ClassVar[Counter[str]] = Counter()
    """How often each thing has happened."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(self.environment, self.settings)
        self._told = 0
        """The position of the log as far as what was told has been looked at."""
        self._not_rebuilt: set[int] = set()
        """The numbers of the statements that were no part of the rebuild in the last step, if there was one."""
        self.world = World()
        self.path: Timeline = ()
        self.left: dict[str, tuple[Timeline, Mapping[str, str]]] = {}
        """The other branches: what they are, and what was on the disk when they were left."""

    def environment(self, watch: Watch) -> Watched:
        return WatchedInProcess(watch)

    @initialize()
    def begin(self) -> None:
        for name in _FILES:
            self._put(name, "0")
        self.life.open()
        self.life.session.set_option("ask_about", "acts")

    def teardown(self) -> None:
        self.life.close()

    # --- statements ---------------------------------------------------------------------------------------------------

    @rule(
        sources=st.lists(_SOURCES, min_size=1, max_size=4),
        author=st.sampled_from(["cell", "prompt", "model"]),
        killed=st.booleans(),
    )
    def run(self, sources: Sequence[str], author: Author, killed: bool) -> None:
        """One after the other; the last one is perhaps in the middle when the process dies."""
        for source in sources[:-1]:
            self._run(source, author, killed=False)
        self._run(sources[-1], author, killed=killed)

    def _run(self, source: str, author: Author, *, killed: bool) -> None:
        if killed:
            self.life.kill_at("run", 1)
        match author:
            case "cell":
                self.life.wait(lambda: self.life.session.cell(source))
            case "prompt":
                self.life.say(f"/run {source}")
            case "model":
                self.life.say_as_model(source)
        is_killed = self.life.reopen_killed()
        (finished,) = self._finished()
        if author == "model":
            self._tick()
        self._ran(source, finished, by_model=author == "model")
        if author == "model" and not is_killed:
            self._tick()
        self._end("run", author, "killed" if is_killed else "")

    @rule(x=_x, c=_c, cancelled=st.booleans())
    def run_what_is_stopped(self, x: str, c: int, cancelled: bool) -> None:
        source = f"x{x} = {c}{STOPS}"

        async def cancel() -> None:
            subscription = self.life.session.subscribe()
            ticket = self.life.session.accept(f"/run {source}")
            async for batch in subscription.batches(pace=0):
                if any(isinstance(each, OutputStreamed) and BEGUN in each.text for each in batch):
                    break
            self.life.session.cancel()
            await ticket.end()

        if cancelled:
            self.life.wait(cancel)
        else:
            self.life.wait(lambda: self.life.session.cell(source, seconds=0.1))
        (finished,) = self._finished()
        self._ran(source, finished)
        self._end("run_what_is_stopped", "cancelled" if cancelled else "timeout")

    # --- what comes out differently -----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(_FILES), text=st.sampled_from("012"))
    def change_a_file(self, name: str, text: str) -> None:
        self._put(name, text)
        self._end("change_a_file")

    @rule()
    def answer_otherwise(self) -> None:
        self.life.allows = self.world.allows = not self.world.allows
        self._end("answer_otherwise")

    # --- edits and replays --------------------------------------------------------------------------------------------

    @precondition(lambda self: self.path)
    @rule(k=_numbers, source=_SOURCES, last=st.none() | _numbers, live=st.booleans(), breach=_breaches)
    def edit(self, k: int, source: str, last: int | None, live: bool, breach: Breach | None) -> None:
        count = model.count_of(self.path)
        if not count:
            return
        k = 1 + k % count
        last = None if last is None else k + last % (count - k + 1)
        mode: EditMode = "live" if live else "recorded"
        left = self._active()
        old = [step for step in self._steps() if k <= step.index <= (last or count)]
        edited = old[0]
        runs = [edited, *(step for step in old[1:] if not step.omitted and not step.is_stopped)]
        back = self.path
        self._leave(left)
        report = None
        with self._breached("run", breach) as ended:
            try:
                report = self.life.wait(lambda: self.life.session.edit(k, source, last, mode))
            except StatementWithdrawnError:
                ended.append("cancelled")
            else:
                self._note_failure(report, runs[1:], ended)
        finished = self._finished()
        assert len(finished) == len(runs) or ended, (report, finished)
        self.path = model.before(self.path, k)
        certain: set[int] = set()
        possible: set[int] = set()
        for step, ran in zip(runs, finished, strict=False):
            text = source if step is edited else step.source
            asks = () if step.is_stopped else [ask for ask in step.outcome.asked if ask.what not in (*OWN, "view")]
            self._tick()
            new = self._ran(text, ran, None if live else asks, by_model=step.by_model and step is not edited)
            if not _is_interrupted(ran) and not new.ended_its_worker:
                self._sort(step, new.index, model.differs(step.outcome, new.outcome), certain, possible)
            self._not_rebuilt.add(new.index)
        self._compare(None if ended else report, certain, possible)
        if "cancelled" in ended:
            (branch,) = {row.name for row in self.life.session.branches} - self.left.keys()
            self._leave(branch)
            self.path, _ = self.left.pop(left)
            assert self.path == back
        if ended:
            self._not_rebuilt = set()
        self._end("edit", mode, *ended)

    @precondition(lambda self: self.path)
    @rule(first=_numbers, last=_numbers, mode=st.sampled_from(["recorded", "dry", "live"]), breach=_breaches)
    def replay(self, first: int, last: int, mode: ReplayMode, breach: Breach | None) -> None:
        count = model.count_of(self.path)
        if not count:
            return
        first = 1 + first % count
        last = first + last % (count - first + 1)
        steps = self._steps()
        if mode == "live" and any(step.may_act for step in steps if step.index > last):
            last = count
        meant = [step for step in steps if first <= step.index <= last and not step.omitted and not step.is_stopped]
        if mode != "live":
            meant = [step for step in meant if not step.ended_its_worker]
        if not meant:
            with pytest.raises(InvalidRequestError, match="Nothing can run again"):
                self.life.wait(lambda: self.life.session.replay(first, last, mode))
            self._end("replay", "of nothing")
            return
        report = None
        with self._breached("run" if mode == "live" else "compare", breach) as ended:
            report = self.life.wait(lambda: self.life.session.replay(first, last, mode))
            if report.outcome == "cancelled":
                ended.append("cancelled")
            else:
                self._note_failure(report, meant, ended)
        if mode == "live":
            self._replayed_live(first, last, meant, report, ended)
        else:
            self._replayed_recorded(first, last, mode, meant, report, ended)
        self._end("replay", mode, *ended)

    def _replayed_live(
        self, first: int, last: int, meant: Sequence[Step], report: ReplayReport | None, ended: Sequence[str]
    ) -> None:
        finished = self._finished()
        assert len(finished) == len(meant) or ended, report
        space = Space(self.world)
        list(model.played(space, [part for part in model.parts_of(self.path) if _is_ahead(part, first)]))
        certain: set[int] = set()
        possible: set[int] = set()
        new: list[Step | Ticked] = []
        for step, ran in zip(meant, finished, strict=False):
            if followed := space.followed():
                new.append(Ticked(followed))
                space.tick(followed)
            if step.ended_its_worker:
                break
            with self._perhaps_written(ran):
                outcome = space.now(step.source, ran.status, _drawn(ran), asks=step.by_model, stale=_stale(ran))
            if _is_interrupted(ran):
                break
            _assert_alike(ran, outcome)
            without = model.left_out(self._steps(), step.index)
            new.append(Step(step.index, step.source, outcome, without, step.by_model))
            self._sort(step, step.index, model.differs(step.outcome, outcome), certain, possible)
        self._compare(None if ended else report, certain, possible)
        if not ended:
            self.path = (*self.path, Replayed(first, last, tuple(new)))
            if last == model.count_of(self.path):
                self._not_rebuilt = {*range(first, last + 1)}

    def _replayed_recorded(
        self,
        first: int,
        last: int,
        mode: ReplayMode,
        meant: Sequence[Step],
        report: ReplayReport | None,
        ended: Sequence[str],
    ) -> None:
        if mode == "dry":
            acting = (place for place, step in enumerate(meant, 1) if step.acts)
            meant = meant[: next(acting, len(meant))]
        finished = self._finished()
        assert len(finished) == len(meant) or ended, report
        ran = [step for step, each in zip(meant, finished, strict=False) if not _is_interrupted(each)]
        certain, possible = model.differing(self.path, self.world)
        if mode == "dry" and ran and ran[-1].acts:
            certain.add(ran[-1].index)
        numbers = {step.index for step in ran}
        for step in ran:
            self._plant(step, is_certain=step.index in certain)
        self._compare(None if ended else report, certain & numbers, possible & numbers)
        if mode == "recorded" and not ended:  # a dry one ends before the namespace is whole
            self._not_rebuilt = {*range(first, last + 1)}

    @contextmanager
    def _breached(self, moment: Moment, breach: Breach | None) -> Generator[list[str]]:
        """What is done within is perhaps cancelled, or its process killed; the list then says that it was."""
        ended: list[str] = []
        if breach is not None and breach[0] == "kill":
            self.life.kill_at(moment, breach[1])
        elif breach is not None:
            self.life.watch.arm(moment, breach[1], self.life.session.cancel)
        yield ended
        if self.life.reopen_killed():
            ended[:] = ["killed"]
            assert not isinstance(self._last_replay(), ReplayEnded) or self._last_replay().outcome == "interrupted"

    def _note_failure(self, report: ReplayReport, ran: Sequence[Step], ended: list[str]) -> None:
        """What ends its worker ends what runs it again, and nothing else does."""
        if any(step.ended_its_worker for step in ran):
            assert report.outcome == "failed", report
            ended.append("failed")
        else:
            assert report.outcome == "completed", report

    def _last_replay(self) -> Any:
        since = self.life.session.since(self._told)
        return next((event for event in reversed(since) if isinstance(event, ReplayEnded)), None)

    # --- other ways ---------------------------------------------------------------------------------------------------

    @rule(k=_numbers, files=st.booleans(), conversation=st.booleans())
    def rewind(self, k: int, files: bool, conversation: bool) -> None:
        k %= model.count_of(self.path) + 1
        self._rewound(k, files, conversation)
        self.life.wait(lambda: self.life.session.rewind(k, files=files, conversation=conversation))
        self._end("rewind", "" if files else "without files", "" if conversation else "without conversation")

    def _rewound(self, k: int, files: bool, conversation: bool) -> None:
        target = model.cut(self.path, k)
        if conversation:
            self._leave(self._active())
            self.path = target
        else:
            omitted = [Omitted(step.index, True) for step in self._steps() if step.index > k and not step.omitted]
            self.path = (*self.path, *omitted)
        if files:
            self.world.put_back(model.disk_of(target))

    @precondition(lambda self: self.left)
    @rule(which=_numbers, files=st.booleans())
    def switch(self, which: int, files: bool) -> None:
        name = sorted(self.left)[which % len(self.left)]
        self._leave(self._active())
        self.path, disk = self.left.pop(name)
        if files:
            self.world.put_back(disk)
        self.life.wait(lambda: self.life.session.switch(name, files=files))
        self._end("switch", "" if files else "without files")

    @precondition(lambda self: self.path)
    @rule(k=_numbers)
    def omit(self, k: int) -> None:
        if not model.count_of(self.path):
            return
        k = 1 + k % model.count_of(self.path)
        steps = self._steps()
        step = next((step for step in steps if step.index == k), None)
        # One that is taken in again behind others that are left out runs on other values, too.
        again = steps if step is None else [each for each in steps if each.index > k or (each is step and step.omitted)]
        if step is None or any(each.may_act for each in again):
            return
        self.life.say(f"/omit {k}")
        self.path = (*self.path, Omitted(k, not step.omitted))
        self._end("omit", "taken in again" if step.omitted else "")

    @rule(first=_SOURCES, second=_SOURCES, k=_numbers, way=st.sampled_from(["rewind", "branch"]), withdrawn=_numbers)
    def queue(self, first: str, second: str, k: int, way: str, withdrawn: int) -> None:
        """A statement, a way to elsewhere and a statement wait at once; one of the last two is perhaps withdrawn."""
        active, others = self._active(), sorted(self.left)
        k %= model.count_of(self.path) + 2
        if way == "branch" and not others:
            way = "rewind"
        name = others[k % len(others)] if way == "branch" else ""
        withdrawn %= 3

        async def act() -> None:
            commands = (f"/run {first}", f"/branch {name}" if name else f"/rewind {k}", f"/run {second}")
            tickets = [self.life.session.accept(text) for text in commands]
            if withdrawn:
                self.life.session.cancel(tickets[withdrawn])
            for ticket in tickets:
                await ticket.end()

        self.life.wait(act)
        finished = self._finished()
        assert len(finished) == (1 if withdrawn == 2 else 2)
        self._ran(first, finished[0])
        if withdrawn != 1:
            self.left[active] = (self.path, self.world.written)
            if name:
                self.path, disk = self.left.pop(name)
            else:
                self.path = model.cut(self.path, k)
                disk = model.disk_of(self.path)
            self.world.put_back(disk)
        if withdrawn != 2:
            self._not_rebuilt = {self._ran(second, finished[1]).index}
        self._end("queue", way, ("", "way withdrawn", "statement withdrawn")[withdrawn])

    @rule()
    def compact(self) -> None:
        self.life.say("/compact")
        self._end("compact")

    @rule()
    def tick(self) -> None:
        self.life.wait(self.life.session.tick)
        self._tick()
        self._end("tick")

    # --- lives --------------------------------------------------------------------------------------------------------

    @rule()
    def lose_the_worker(self) -> None:
        self.life.wait(self._end_worker)
        self._end("lose_the_worker")

    async def _end_worker(self) -> None:
        if self.life.has_environment and self.life.environment.alive:
            await self.life.environment.end()

    @rule()
    def rest(self) -> None:
        self.life.wait(self.life.session.rest)
        self._end("rest")

    @rule()
    def open_again(self) -> None:
        self.life.open_again()
        self._end("open_again")

    @rule()
    def lose_the_process(self) -> None:
        self.life.kill()
        self._end("lose_the_process")

    # --- what there is then -------------------------------------------------------------------------------------------

    def _end(self, what: str, *how: str) -> None:
        """A step has ended so: everything is looked at."""
        self.reached[" ".join((what, *filter(None, how)))] += 1
        if self._steps():
            self._check_names()
        if self.life.watch.from_checkpoints:
            self.reached[f"{what} {_FROM_CHECKPOINT}"] += 1
            self.life.watch.from_checkpoints = 0
        assert self.life.files() == self.world.files
        assert len(self.life.session.cells) == model.count_of(self.path)
        events, stored = self.life.told()
        _assert_one(events, self.life.session.view, stored)
        certain, possible = (found - self._not_rebuilt for found in model.differing(self.path, self.world))
        self._not_rebuilt = set()
        restored = [event for event in self.life.session.since(self._told) if isinstance(event, EnvironmentRestored)]
        held = {int(found) for label in self.life.watch.held for found in _NUMBER.findall(label)}
        for event in restored[-1:]:
            sentences = [text for text in event.divergences if not _OTHER.search(text)]
            told = [int(found) for text in sentences for found in _NUMBER.findall(text)[:1]]
            assert len(sentences) == len(set(sentences)), event.divergences
            assert certain - held <= set(told) <= (certain | possible) - held, (
                event.divergences,
                certain,
                possible,
                held,
            )
        self._told = self.life.session.position

    def _check_names(self) -> None:
        space = model.space_of(self.path, self.world)
        views = {name: view for name, view in space.views().items() if view.text is not None}
        texts = self.life.texts(list(views))
        # One that has two names is shown under one of them.
        assert {views[name] for name in texts} == set(views.values())
        assert texts == {name: f"1\t{views[name].text}\n" for name in texts}, self.path
        assert self.life.names() == space.all_shown(), self.path

    # --- parts of steps -----------------------------------------------------------------------------------------------

    def _steps(self) -> list[Step]:
        return model.steps_of(self.path)

    def _tick(self) -> None:
        """Views that run have caught up. Where there are none, nothing was seen, and nothing is on the log."""
        if followed := model.space_of(self.path, self.world).followed():
            self.path = (*self.path, Ticked(followed))

    def _active(self) -> str:
        return next(row.name for row in self.life.session.branches if row.is_active)

    def _leave(self, branch: str) -> None:
        self.left[branch] = (self.path, self.world.written)

    def _put(self, name: str, text: str) -> None:
        (self.life.project / name).write_text(text)
        self.world.files[name] = text

    def _finished(self) -> list[ExecutionFinished]:
        """The executions since the last look."""
        return [event for event in self.life.session.since(self._told) if isinstance(event, ExecutionFinished)]

    def _ran(
        self, source: str, finished: ExecutionFinished, recorded: Sequence[Ask] | None = None, *, by_model: bool = False
    ) -> Step:
        """A statement has run at the end of the path."""
        space = model.space_of(self.path, self.world)
        if _ended_worker(finished):
            outcome = Outcome("error", WORKER_DIED, "", {}, {}, frozenset(), ())
        elif recorded is None:
            with self._perhaps_written(finished):
                outcome = space.now(source, finished.status, _drawn(finished), asks=by_model, stale=_stale(finished))
        else:
            outcome = space.instead(source, finished.status, _drawn(finished), recorded)
        if _is_interrupted(finished):
            outcome = Outcome("cancelled", "", "", {}, {}, frozenset(), ())
        elif not _ended_worker(finished):
            _assert_alike(finished, outcome)
        index, steps = model.count_of(self.path) + 1, self._steps()
        step = Step(index, source, outcome, model.left_out(steps, index), by_model)
        self.path = (*self.path, Ran(step, self.world.written))
        return step

    @contextmanager
    def _perhaps_written(self, finished: ExecutionFinished) -> Generator[None]:
        """Nobody knows whether one whose process was killed has written what it was to write, or was refused that."""
        before = dict(self.world.files)
        yield
        if _is_interrupted(finished) and self.life.files() == before:
            self.world.files = before

    def _sort(self, step: Step, number: int, differs: bool | None, certain: set[int], possible: set[int]) -> None:
        self._plant(step, is_certain=bool(differs))
        if differs is None:
            possible.add(number)
        elif differs:
            certain.add(number)

    def _plant(self, step: Step, *, is_certain: bool) -> None:
        if is_certain:
            for ask in step.outcome.asked:
                self.reached[f"other {ask.what}"] += 1

    def _compare(self, report: ReplayReport | None, certain: set[int], possible: set[int]) -> None:
        on_log = [event for event in self.life.session.since(self._told) if isinstance(event, Diverged)]
        told = [(each.statement, each.aspect) for each in on_log]
        assert len(told) == len(set(told))
        numbers = {number for number, _ in told}
        assert certain <= numbers <= certain | possible, (on_log, certain, possible)
        assert report is None or told == [(each.statement, each.aspect) for each in report.divergences]


def _is_ahead(part: Step | Ticked, first: int) -> bool:
    return isinstance(part, Ticked) or part.index < first


def _is_interrupted(finished: ExecutionFinished) -> bool:
    """Whether that is the end of one that nobody has seen the end of."""
    return finished.exception is not None and finished.exception.type == INTERRUPTED


def _ended_worker(finished: ExecutionFinished) -> bool:
    return finished.exception is not None and finished.exception.type == WORKER_DIED


def _drawn(finished: ExecutionFinished) -> Mapping[str, str]:
    """What was drawn for a statement, by what that was drawn by."""
    diff = finished.diff
    after = diff.added | {name: change.after for name, change in diff.changed.items()}
    given = {what: literal_eval(after[name].short_repr) for name, what in _DRAWN.items() if name in after}
    return {what: str(given.get(what, 0)) for what in _DRAWN.values()}


def _stale(finished: ExecutionFinished) -> str:
    """The error of one that would have written over what it has not seen; empty where it got none."""
    exception = finished.exception
    return exception.message if exception is not None and STALE in exception.message else ""


def _assert_alike(finished: ExecutionFinished, outcome: Outcome) -> None:
    """What was recorded is what the model came to."""
    exception = finished.exception
    message = "" if exception is None else f"{exception.type}: {exception.message}"
    if not outcome.exception.startswith(REFUSED):
        assert message == outcome.exception or finished.status in ("timeout", "cancelled"), (message, outcome)
    assert (finished.status, finished.stdout.text) == (outcome.status, outcome.stdout), (finished, outcome)


class WorkerMachine(TimelineMachine):
    """The same over real workers, which are killed."""

    def environment(self, watch: Watch) -> Watched:
        return WatchedWorker(watch)

    @rule(x=_x, c=_c, by_model=st.booleans())
    def run_what_ends_its_worker(self, x: str, c: int, by_model: bool) -> None:
        source = f"x{x} = {c}; __import__('os')._exit(3)"
        if by_model:
            self.life.say_as_model(source)
            self._tick()
        else:
            self.life.say(f"/run {source}")
        (finished,) = self._finished()
        step = self._ran(source, finished, by_model=by_model)
        assert step.ended_its_worker, finished
        if by_model:
            self._tick()
        self._end("run_what_ends_its_worker", "by model" if by_model else "")

    async def _end_worker(self) -> None:
        environment = self.life.environment if self.life.has_environment else None
        if isinstance(environment, WorkerEnvironment) and environment.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(environment.pid, signal.SIGKILL)
            await gone(environment.pid)


class CheckpointMachine(WorkerMachine):
    """The same where names come back from paused copies of workers, as far as there are any."""

    settings = MappingProxyType({"restore_by": "checkpoints"})


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "times"), [(TimelineMachine, 3), (WorkerMachine, 0.5), (CheckpointMachine, 0.5)])
def test_namespace_view_and_files_follow_the_path(
    machine: type[TimelineMachine], times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With workers, old events are read in the store again: blocks of four, of which all but two are let go at once.

    Checkpoints are taken after every statement, and few are kept.
    """
    for name, value in {"LEAST_SECONDS": 0.0, "_TIMES_COST": 0}.items():
        monkeypatch.setattr(saved_state, name, value)
    for name, value in {"MOST": 5, "NEWEST": 2}.items():
        monkeypatch.setattr(checkpoints, name, value)
    for name, value in {"BLOCK": 4, "NEWEST": 2, "_EVERY": 1, "_READ": 0}.items() if machine is WorkerMachine else ():
        monkeypatch.setattr(event_log, name, value)
    machine.reached.clear()
    run_state_machine_as_test(machine, settings=settings(examples(times), stateful_step_count=50))
    came_back = sum(times for what, times in machine.reached.items() if what.endswith(_FROM_CHECKPOINT))
    assert (came_back > 0) == (machine is CheckpointMachine)


def test_each_difference_is_told_once_in_each_rerun() -> None:
    """Which is asserted by the machine itself."""
    machine = TimelineMachine()
    planted = {"other open", "other read", "other urandom", "other time_ns", "other write"}
    try:
        machine.begin()
        sources = (
            "x0 = 1",
            "t0 = read('in-a')",
            "with open('in-b') as _: t1 = _.read()\ndel _",
            "r0 = __import__('os').urandom(4).hex()",
            "r1 = __import__('time').time_ns()",
        )
        machine.run(sources, "cell", killed=False)
        machine.run(["write('out-a', t0); None"], "model", killed=False)
        ways: tuple[tuple[str, Callable[[], None]], ...] = (
            ("recorded", lambda: machine.replay(0, 5, "recorded", None)),
            ("live", lambda: machine.replay(0, 5, "live", None)),
            ("edited", lambda: machine.edit(0, "x0 = 2", None, False, None)),
            ("edited live", lambda: machine.edit(0, "x0 = 3", None, True, None)),
        )
        text = "0"
        for name, act in ways:
            TimelineMachine.reached.clear()
            text = str(int(text) + 1)
            machine.change_a_file("in-a", text)
            machine.change_a_file("in-b", text)
            if name in ("recorded", "edited live"):
                machine.answer_otherwise()  # than the last time that the user was asked
            act()
            # What a tool was asked is answered as it was.
            unseen = {"other read", "other write"} if name in ("recorded", "edited") else set[str]()
            assert planted - unseen <= TimelineMachine.reached.keys(), name
    finally:
        machine.teardown()
