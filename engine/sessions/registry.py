"""The sessions of one process: makes them, loads them, finds them, closes them all.

One writer per session in the whole machine, held by the store. Made by `Host`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ..config.project import find_project_environment
from ..config.settings import Settings
from ..errors import InvalidRequestError, SessionNotFoundError
from ..events.session import SessionOpened
from ..ids import SessionId
from ..minter import Minter
from ..ports import Clock, Entropy, Environment, Model, Place, SessionRow, Store
from ..redaction import Redactor
from .assembly import Surroundings, assemble
from .journal import Journal
from .session import Session


class Sessions:
    """Every session that this process has open."""

    def __init__(self, surroundings: Surroundings, tasks: TaskGroup) -> None:
        self._surroundings = surroundings
        self._store = surroundings.store
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
        session_id = self._surroundings.minter.session()
        now = self._surroundings.clock.now()
        self._store.create(
            SessionRow(session_id=session_id, cwd=cwd, directories=directories, created_at=now, updated_at=now)
        )
        project = find_project_environment(cwd, self._surroundings.environ, self._surroundings.settings.python)
        journal = self._journal(session_id)
        parts = assemble(self._surroundings, session_id, cwd, directories, project, journal)
        opened = parts.log.append(
            SessionOpened(cwd=cwd, directories=directories, python=project.python, packages=project.packages)
        )
        await journal.durable(opened)
        return self._begin(Session(parts))

    async def load(self, session_id: SessionId) -> Session:
        """A session that the store holds, repaired if its last process died.

        Raises:
            SessionNotFoundError, SessionInUseError.
        """
        from .reopening import reopen  # of the prompt stage

        journal = self._journal(session_id)
        try:
            session = await reopen(self._surroundings, session_id, journal)
        except BaseException:
            self._store.release(session_id)
            raise
        return self._begin(session)

    async def rows(
        self,
        *,
        cwd: str | None = None,
        titled: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """The sessions of the store, the most recently updated first: as `Store.rows`."""
        return await anyio.to_thread.run_sync(
            partial(self._store.rows, cwd=cwd, titled=titled, after=after, limit=limit)
        )

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

    def _journal(self, session_id: SessionId) -> Journal:
        """Acquires the session for writing: commits are reported to the journal from now on."""
        journal = Journal(self._store, session_id, self._surroundings.redactor)
        self._store.acquire(session_id, journal.committed)
        return journal

    def _begin(self, session: Session) -> Session:
        session.start(self._tasks)
        self._open[session.session_id] = session
        return session


def open_sessions(
    *,
    store: Store,
    settings: Settings,
    environments: Callable[[], Environment],
    models: Callable[[], Model],
    clock: Clock,
    entropy: Entropy,
    environ: Mapping[str, str],
    redactor: Redactor,
    tasks: TaskGroup,
) -> Sessions:
    """The sessions of a process, of which none is open yet; they are served in `tasks`."""
    surroundings = Surroundings(
        store=store,
        settings=settings,
        environments=environments,
        models=models,
        clock=clock,
        minter=Minter(clock, entropy),
        environ=environ,
        redactor=redactor,
    )
    return Sessions(surroundings, tasks)


def _check_directory(directory: str) -> None:
    if not directory.startswith("/"):
        raise InvalidRequestError(f"cwd and directories must be absolute paths, not {directory!r}")
    try:
        is_directory = Path(directory).is_dir()
    except OSError:
        is_directory = False
    if not is_directory:
        raise InvalidRequestError(f"{directory} is not a directory")
