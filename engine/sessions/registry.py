"""The sessions of one process: makes them, loads them, finds them, closes them all.

Owns how a session's parts are put together. Created once per process by an adapter or the CLI.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from ..config.project import ProjectEnvironment, find_project_environment
from ..config.secrets import Redactor, allowed_variables
from ..config.settings import Settings
from ..errors import InvalidRequestError, SessionNotFoundError
from ..events import Event
from ..events.codec import decode, encode
from ..events.session import SessionOpened
from ..ids import Seq, SessionId
from ..log import EventLog
from ..minter import Minter
from ..models import make_model
from ..ports import Clock, Entropy, EnvironmentSpec, SessionRow, Store
from ..ports import Limits as WorkerLimits
from ..timeline.index import Timeline
from ..view.fold import ViewFold
from .journal import Journal
from .live_environment import LiveEnvironment
from .parts import SessionParts
from .policy import Policy
from .projector import Projector
from .session import Session

if TYPE_CHECKING:
    from ..cycles import CycleFold
    from ..environment.zygote import Zygote
    from ..ports import Environment
    from .agent_loop import AgentLoop
    from .effects import EffectDesk


class Sessions:
    """Every session that this process has open. One writer per session in the whole machine, held by the store."""

    def __init__(
        self,
        *,
        store: Store,
        zygote: Zygote,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        environ: Mapping[str, str],
        tasks: TaskGroup,
    ) -> None:
        self._store = store
        self._zygote = zygote
        self._settings = settings
        self._clock = clock
        self._minter = Minter(clock, entropy)
        self._environ = environ
        self._redactor = Redactor.of(environ)
        self._tasks = tasks
        self._open: dict[SessionId, Session] = {}

    async def create(self, cwd: str, directories: tuple[str, ...] = ()) -> Session:
        """A new session in `cwd`, durable when this returns.

        Raises:
            InvalidRequestError: a directory is not absolute or is none.
            SessionReadOnlyError: the store cannot take it.
        """
        for directory in (cwd, *directories):
            _check_directory(directory)
        session_id = self._minter.session()
        now = self._clock.now()
        self._store.create(
            SessionRow(session_id=session_id, cwd=cwd, directories=directories, created_at=now, updated_at=now)
        )
        project = find_project_environment(cwd, self._environ, self._settings.python)
        journal = Journal(self._store, session_id, self._redactor)
        self._store.acquire(session_id, journal.committed)
        session = self._assemble(session_id, cwd, directories, project, journal)
        opened = session.parts.log.append(
            SessionOpened(cwd=cwd, directories=directories, python=project.python, packages=project.packages)
        )
        await journal.durable(opened)
        session.start(self._tasks)
        self._open[session_id] = session
        return session

    async def load(self, session_id: SessionId) -> Session:
        """A session that the store holds, repaired if its last process died.

        Raises:
            SessionNotFoundError, SessionInUseError.
        """
        from .repair import enforce_view, repair  # not needed for a new session, whose client waits

        journal = Journal(self._store, session_id, self._redactor)
        self._store.acquire(session_id, journal.committed)
        try:
            row = await anyio.to_thread.run_sync(self._store.row, session_id)
            history = await anyio.to_thread.run_sync(self._store.load, session_id)
            project = find_project_environment(row.cwd, self._environ, self._settings.python)
            session = self._assemble(session_id, row.cwd, row.directories, project, journal, history)
            parts = session.parts
            repaired = [*repair(parts.log, parts.timeline), *enforce_view(parts.log, parts.warning())]
        except BaseException:
            self._store.release(session_id)
            raise
        if repaired:
            await journal.durable(repaired[-1].seq)
        session.start(self._tasks)
        self._open[session_id] = session
        return session

    async def rows(self) -> Sequence[SessionRow]:
        """All sessions of the store, the most recently updated first."""
        return await anyio.to_thread.run_sync(self._store.rows)

    def find(self, session_id: SessionId) -> Session:
        """Raises SessionNotFoundError for one that is not open in this process."""
        session = self._open.get(session_id)
        if session is None:
            raise SessionNotFoundError(session_id)
        return session

    async def close(self, session_id: SessionId) -> None:
        """Cancels what runs and lets other processes have the session."""
        session = self.find(session_id)
        await session.close()
        self._open.pop(session_id, None)
        self._store.release(session_id)

    async def delete(self, session_id: SessionId) -> None:
        """Closes the session where it is open here, and removes it from the store for good.

        Does nothing for one that is not there (any more).

        Raises:
            SessionInUseError: another process has it.
            StoreError: it cannot be written.
        """
        if session_id in self._open:
            await self.close(session_id)
        with contextlib.suppress(SessionNotFoundError):
            await anyio.to_thread.run_sync(self._store.delete, session_id)

    async def close_all(self) -> None:
        """Closes what is open."""
        for session_id in list(self._open):
            await self.close(session_id)

    def _redacted(self, event: Event) -> Event:
        """The event with every known secret value replaced in its texts."""
        data = encode(event).decode()
        clean = self._redactor.redact(data)
        return event if clean == data else decode(clean)

    def _worker(self) -> Environment:
        from ..environment.worker_environment import WorkerEnvironment  # not needed before the first statement

        return WorkerEnvironment(self._zygote)

    def _assemble(
        self,
        session_id: SessionId,
        cwd: str,
        directories: tuple[str, ...],
        project: ProjectEnvironment,
        journal: Journal,
        history: Sequence[Event] = (),
    ) -> Session:
        timeline, policy, fold = Timeline(), Policy(), ViewFold()
        log = EventLog(
            self._clock,
            journal.write,
            redact=self._redacted,
            folds=(timeline.apply, policy.apply, fold.apply),
            check=fold.refusal,
        )
        if history:
            log.load(history)
            journal.opened_at(Seq(len(history) - 1))

        @cache
        def effects() -> EffectDesk:
            from ..tools import Workspace  # not needed before the first statement
            from .effects import EffectDesk

            return EffectDesk(log, self._store, self._minter, Workspace(cwd, directories))

        environment = LiveEnvironment(
            self._worker,
            EnvironmentSpec(
                cwd=cwd,
                directories=directories,
                import_paths=project.import_paths,
                variables=allowed_variables(self._environ),
                limits=WorkerLimits(statement_seconds=self._settings.statement_seconds),
            ),
            log,
            timeline,
            lambda cell: effects().answers(cell),
        )
        projector = Projector(fold.view, cwd, self._settings.context_budget)

        @cache
        def cycles() -> CycleFold:
            from ..cycles import CycleFold  # not needed before the first prompt

            made = CycleFold()
            log.follow(made.apply)
            return made

        def make_loop() -> AgentLoop:
            from .agent_loop import AgentLoop  # none of these is needed before the first prompt
            from .condenser import Condenser
            from .statements import StatementRunner

            statements = StatementRunner(
                log=log,
                journal=journal,
                timeline=timeline,
                policy=policy,
                environment=environment,
                effects=effects(),
                minter=self._minter,
                clock=self._clock,
                seconds=self._settings.statement_seconds,
            )
            model = make_model(self._settings.model)
            condenser = Condenser(
                log=log,
                view=fold.view,
                projector=projector,
                timeline=timeline,
                cycles=cycles,
                model=model,
            )
            return AgentLoop(
                log=log,
                journal=journal,
                timeline=timeline,
                policy=policy,
                environment=environment,
                statements=statements,
                projector=projector,
                condenser=condenser,
                model=model,
                minter=self._minter,
                clock=self._clock,
                max_rounds=self._settings.max_rounds,
            )

        return Session(
            SessionParts(
                session_id=session_id,
                cwd=cwd,
                store=self._store,
                log=log,
                journal=journal,
                timeline=timeline,
                policy=policy,
                environment=environment,
                projector=projector,
                view=fold.view,
                warning=lambda: fold.warning,
                cycles=cycles,
                loop=cache(make_loop),
                minter=self._minter,
                note=project.note,
            )
        )


def _check_directory(directory: str) -> None:
    if not directory.startswith("/"):
        raise InvalidRequestError(f"cwd and directories must be absolute paths, not {directory!r}")
    try:
        is_directory = Path(directory).is_dir()
    except OSError:
        is_directory = False
    if not is_directory:
        raise InvalidRequestError(f"{directory} is not a directory")
