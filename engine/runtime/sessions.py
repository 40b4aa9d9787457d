"""The sessions of one process: makes them, loads them, finds them, closes them all.

Owns how a session's parts are put together. Created once per process by an adapter or the CLI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from ..errors import InvalidRequestError, SessionNotFoundError
from ..events import Event, SessionOpened
from ..ids import Minter, Seq, SessionId
from ..log import EventLog
from ..models import make_model
from ..ports import Clock, Entropy, EnvironmentSpec, SessionRow, Store
from ..ports import Limits as WorkerLimits
from ..store import open_store
from ..timeline.index import Timeline
from ..tools import Workspace
from ..view.fold import ViewFold
from .agent_loop import AgentLoop
from .effects import EffectDesk
from .journal import Journal
from .live_environment import LiveEnvironment
from .policy import Policy
from .project import ProjectEnvironment, Redactor, allowed_variables, find_project_environment
from .projector import Projector
from .repair import repair
from .session import Session, SessionParts
from .settings import Settings
from .statements import StatementRunner
from .supervisor import WorkerEnvironment

if TYPE_CHECKING:
    from .supervisor import Zygote


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

    @classmethod
    def open(
        cls,
        *,
        zygote: Zygote,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        environ: Mapping[str, str],
        tasks: TaskGroup,
    ) -> Sessions:
        """Sessions over the configured store."""
        store = open_store(settings.state_dir, clock)
        return cls(
            store=store,
            zygote=zygote,
            settings=settings,
            clock=clock,
            entropy=entropy,
            environ=environ,
            tasks=tasks,
        )

    def warm_up(self) -> None:
        """Opens the store's files now; a session would otherwise wait for it.

        Raises:
            StoreError: it cannot be opened; a session would be told the same.
        """
        self._store.rows()

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
        journal = Journal(self._store, session_id)
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
        journal = Journal(self._store, session_id)
        self._store.acquire(session_id, journal.committed)
        try:
            row = await anyio.to_thread.run_sync(self._store.row, session_id)
            history = await anyio.to_thread.run_sync(self._store.load, session_id)
            project = find_project_environment(row.cwd, self._environ, self._settings.python)
            session = self._assemble(session_id, row.cwd, row.directories, project, journal, history)
            repaired = repair(session.parts.log, session.parts.timeline)
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

    async def close_all(self) -> None:
        """Closes what is open, and the store."""
        for session_id in list(self._open):
            await self.close(session_id)
        self._store.close()

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
        log = EventLog(self._clock, journal.write, folds=(timeline.apply, policy.apply, fold.apply), check=fold.refusal)
        if history:
            log.load(history)
            journal.opened_at(Seq(len(history) - 1))
        effects = EffectDesk(log, self._store, self._minter, Workspace(cwd, directories))
        environment = LiveEnvironment(
            WorkerEnvironment(self._zygote),
            EnvironmentSpec(
                cwd=cwd,
                directories=directories,
                import_paths=project.import_paths,
                variables=allowed_variables(self._environ),
                limits=WorkerLimits(statement_seconds=self._settings.statement_seconds),
            ),
            log,
            timeline,
            effects,
            self._redactor.redact,
        )
        projector = Projector(fold.view, cwd, self._settings.context_budget)
        statements = StatementRunner(
            log=log,
            journal=journal,
            timeline=timeline,
            policy=policy,
            environment=environment,
            effects=effects,
            minter=self._minter,
            clock=self._clock,
            seconds=self._settings.statement_seconds,
        )
        loop = AgentLoop(
            log=log,
            journal=journal,
            timeline=timeline,
            policy=policy,
            environment=environment,
            statements=statements,
            projector=projector,
            model=make_model(self._settings.model),
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
                loop=loop,
                minter=self._minter,
                note=project.note,
            )
        )


def _check_directory(directory: str) -> None:
    if not directory.startswith("/"):
        raise InvalidRequestError(f"cwd and directories must be absolute paths, not {directory!r}")
    if not Path(directory).is_dir():
        raise InvalidRequestError(f"{directory} is not a directory")
