"""A session with its project, its store and its processes, for tests of random timelines: driven, killed, looked at."""

from __future__ import annotations

import gc
import os
from ast import literal_eval
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from engine import Session, Sessions
from engine.context.model import ModelSignal, Prompt, StatementAsked, TextDelta
from engine.core.ids import ExecutionId, Seq, SessionId
from engine.log.events import Event
from engine.log.past import Comparison, Contents, Differences, PastExecution, Restored, RestorePlan
from engine.log.permissions import PermissionAnswer, PermissionQuestion
from engine.log.statements import EffectHandler, OutputSink, RunOutcome, RunRequest, TouchSink, ignore_touched
from engine.log.store.memory import MemoryStore
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.in_process import InProcessEnvironment
from tests.support.models import AnsweringModel
from tests.support.sessions import sessions_of
from tests.support.workers import shared_zygote

T = TypeVar("T")
_LIVES = count()
_TIDY_EVERY = 20
Moment = Literal["run", "compare"]
"""A statement has run and nobody knows yet; or one that ran again with recorded answers is compared."""
_PROBE = """
def _shown(value):
    kind = type(value).__name__
    if kind == "generator":
        frame = value.gi_frame
        return f"generator at {frame.f_locals.get('n') if frame else 'its end'}"
    if kind == "GroupHandle":
        return f"group of {value.members}"
    return f"function of {value()}" if callable(value) else repr(value)
print({n: _shown(v) for n, v in sorted(globals().items()) if n.rstrip("0123") in tuple("xltrnfgsvh")})
del _shown
"""


class Watch:
    """Has something done at the n-th moment of a kind, once."""

    def __init__(self) -> None:
        self._moment: Moment = "run"
        self._left = 0
        self._act: Callable[[], None] | None = None
        self.held: set[str] = set()
        """The labels of the executions that the checkpoint of the latest restore held: they did not run again."""
        self.from_checkpoints = 0
        """How many restores went on from a checkpoint."""

    def arm(self, moment: Moment, times: int, act: Callable[[], None]) -> None:
        """At the moment after so many others, as soon as the statement is one whose files are all on the log."""
        self._moment, self._left, self._act = moment, times, act

    def disarm(self) -> None:
        self._act = None

    def passed(self, moment: Moment, request: RunRequest) -> None:
        if moment == self._moment and self._act is not None:
            self._left -= 1
            if self._left <= 0 and "pathlib" not in request.source:
                act, self._act = self._act, None
                act()

    def restored(self, plan: RestorePlan, restored: Restored, ran: Collection[ExecutionId]) -> None:
        """A plan was gone through, of which those executions ran again."""
        self.held.clear()
        if restored.checkpoint is None:
            return
        self.from_checkpoints += 1
        for step in plan.steps:
            if isinstance(step, PastExecution):
                if step.request.execution_id in ran:
                    break
                self.held.add(step.request.label)


class Watched(WorkerEnvironment):
    """What is watched of an environment, which stands behind it."""

    watch: Watch

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        outcome = await super().run(request, effects, output, touched, begun)
        self.watch.passed("run", request)
        return outcome

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        ran = set[ExecutionId]()

        def compared(past: PastExecution, outcome: RunOutcome) -> Differences:
            ran.add(past.request.execution_id)
            found = compare(past, outcome)
            self.watch.passed("compare", past.request)
            return found

        restored = await super().restore(plan, contents, compared)
        self.watch.restored(plan, restored, ran)
        return restored

    async def probe(self, source: str) -> RunOutcome:
        """Runs what is no statement of the path, and leaves the namespace as it was: a checkpoint still fits that."""

        async def refuse(_: object) -> Any:
            raise AssertionError("the probe asks for nothing")

        trail = self._trail
        request = RunRequest(execution_id=ExecutionId("probe"), label="<probe>", source=source)
        outcome = await super().run(request, refuse, lambda stream, text: None)
        self._trail = trail
        return outcome


class WatchedInProcess(Watched, InProcessEnvironment):
    def __init__(self, watch: Watch) -> None:
        super().__init__(len)
        self.watch = watch


class WatchedWorker(Watched):
    def __init__(self, watch: Watch) -> None:
        super().__init__(shared_zygote())
        self.watch = watch


def _tidy_up() -> None:
    """Now and then, take all that is older out of later collections: a worker in this process collects often."""
    if next(_LIVES) % _TIDY_EVERY == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


class Life:
    """One session from its making on. `allows` is what the user says when asked."""

    def __init__(self, environment: Callable[[Watch], Watched], settings: Mapping[str, object]) -> None:
        _tidy_up()
        self.watch = Watch()
        self.allows = True
        self._make = environment
        self._settings = {"sandbox": "off", **settings}
        self._stack = ExitStack()
        root = Path(self._stack.enter_context(TemporaryDirectory()))
        self.project, self._state = root / "project", root / "state"
        self.project.mkdir()
        self._stack.callback(os.chdir, os.getcwd())
        os.chdir(self.project)
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._store = MemoryStore(FixedClock())
        self._entropy = CountingEntropy()
        self._environments: list[Watched] = []
        self._process = ExitStack()
        self._survived: tuple[MemoryStore, Mapping[str, str]] | None = None
        self._to_say: list[str] = []
        """What the model writes next."""
        self.sessions: Sessions
        self.session: Session

    def open(self, session_id: SessionId | None = None) -> None:
        opened = sessions_of(
            self._state,
            self._store,
            model=AnsweringModel(self._answer),
            environments=self._environment,
            entropy=self._entropy,
            settings=self._settings,
        )
        self.sessions = self._process.enter_context(self._portal.wrap_async_context_manager(opened))
        if session_id is None:
            self.session = self.wait(lambda: self.sessions.create(str(self.project)))
        else:
            self.session = self.wait(lambda: self.sessions.load(session_id))
        self._portal.call(self.session.attach, self)

    def _environment(self) -> Watched:
        made = self._make(self.watch)
        self._environments.append(made)
        return made

    def _answer(self, _: Prompt) -> Sequence[ModelSignal]:
        return [StatementAsked(self._to_say.pop(), typed=False)] if self._to_say else [TextDelta("Done.")]

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """The user."""
        del question
        return PermissionAnswer(outcome="allowed" if self.allows else "rejected")

    @property
    def has_environment(self) -> bool:
        return bool(self._environments)

    @property
    def environment(self) -> Watched:
        """The latest."""
        return self._environments[-1]

    def wait(self, act: Callable[[], Awaitable[T]]) -> T:
        async def awaited() -> T:
            return await act()

        return self._portal.call(awaited)

    def say(self, text: str) -> None:
        """A prompt, to its end."""

        async def said() -> None:
            await self.session.accept(text).end()

        self.wait(said)

    def say_as_model(self, source: str) -> None:
        """A prompt that the model answers with a statement."""
        self._to_say.append(source)
        self.say("Go on.")

    def open_again(self) -> None:
        """Closes the session and loads it."""

        async def again() -> Session:
            await self.sessions.close(self.session.session_id)
            return await self.sessions.load(self.session.session_id)

        self.session = self.wait(again)
        self._portal.call(self.session.attach, self)

    def kill(self) -> None:
        """The process dies as it is: what it has not written is lost, and another one opens the session."""
        self._survived = self._left()
        self.reopen_killed()

    def kill_at(self, moment: Moment, times: int) -> None:
        """The process dies in the middle of what is done next, as `Watch.arm`; `reopen_killed` then says whether."""

        def die() -> None:
            self._survived = self._left()

        self.watch.arm(moment, times, die)

    def reopen_killed(self) -> bool:
        """Goes on with what a killed process has left, on disk and in the store; whether one was killed."""
        self.watch.disarm()
        survived, self._survived = self._survived, None
        if survived is None:
            return False
        session_id = self.session.session_id
        self._process.close()
        self._store, files = survived
        for path in self.project.iterdir():
            path.unlink()
        for name, text in files.items():
            (self.project / name).write_text(text)
        self.open(session_id)
        return True

    def _left(self) -> tuple[MemoryStore, Mapping[str, str]]:
        session_id, copy = self.session.session_id, MemoryStore(FixedClock())
        copy.create(self._store.row(session_id))
        copy.acquire(session_id, lambda seq, error: None)
        for digest in self._store.contents(session_id):
            copy.blob_put(self._store.blob_get(digest))
        for event in self._store.load(session_id):
            copy.submit(session_id, event)
        copy.release(session_id)
        return copy, self.files()

    def files(self) -> Mapping[str, str]:
        return {path.name: path.read_text() for path in self.project.iterdir()}

    def told(self) -> tuple[Sequence[Event], tuple[Event, ...]]:
        """The log, and what is on disk of it when all of it is.

        Both of one moment, because an idle session still records what becomes of a checkpoint.
        """
        return self.wait(self._tell)

    async def _tell(self) -> tuple[Sequence[Event], tuple[Event, ...]]:
        position = 0
        while position != self.session.position:
            position = self.session.position
            await self.session.durable(Seq(position - 1))
        return self.session.events, tuple(self._store.load(self.session.session_id))

    def names(self) -> Mapping[str, str]:
        """What each name is bound to, as text; looked at beside the log."""
        return literal_eval(self.wait(self._probe))

    async def _probe(self) -> str:
        outcome = await self.environment.probe(_PROBE)
        assert outcome.exception is None, outcome.exception
        return outcome.stdout.text

    def texts(self, names: Sequence[str]) -> Mapping[str, str]:
        """What these views show."""
        looked = self.wait(lambda: self.session.look(names))
        return {name: display.text for name, display in looked.shown.items()}

    def close(self) -> None:
        with self._stack, self._process:
            """Closes the session, then what it stands on."""
