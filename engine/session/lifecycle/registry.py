"""The sessions of one process: makes them, loads them, finds them, closes them all.

One writer per session in the whole machine, held by the store. Made by `Host`. More than 300 lines, because what a
session may be opened with is said for each way to open one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ...context.model import Model
from ...core.clock import Clock, Entropy
from ...core.errors import EngineError, SessionNotFoundError, SessionReadOnlyError, StoreError
from ...core.ids import Minter, SessionId
from ...core.mcp_servers import McpServer
from ...core.settings import Settings
from ...files.outline.model import Outliner
from ...log.events.session import SessionOpened
from ...log.redaction import Redactor
from ...log.store_protocol import Place, SessionRow, Store
from ...runtime.environment import Environment, StartServer
from ..assembly import Surroundings, assemble, newly_named
from ..directories import alike, check_working_directory, missing, real_places, spelled
from ..project import find_project_environment
from ..publishing.journal import Journal
from ..scratch import Scratch
from ..session import Session
from .homes import SAID_IN_SESSION, Homes
from .naming import Opening, session_named

logger = logging.getLogger(__name__)


class Sessions:
    """Every session that this process has open."""

    def __init__(self, surroundings: Surroundings, tasks: TaskGroup) -> None:
        self._surroundings = surroundings
        self._homes = Homes(surroundings.store, surroundings.clock)
        self._tasks = tasks
        self._open: dict[SessionId, Session] = {}
        self._naming = anyio.Lock()
        """Held while a named session is opened, so that it is made once."""

    async def create(self, cwd: str, directories: Sequence[str] = (), servers: Sequence[McpServer] = ()) -> Session:
        """A new session in `cwd`, durable when this returns. An additional directory that is missing is warned of.

        Where the store cannot take it, it lives in memory, which is warned of too. `servers` are the MCP servers that
        its statements may call; they are connected by `Session.connect`, at the latest by its first prompt.

        Raises:
            InvalidRequestError: a path is not absolute, or `cwd` is no directory.
        """
        return await self._created(self._surroundings.minter.session(), Opening(cwd, directories, servers=servers))

    async def open(
        self,
        name: str | None,
        cwd: str,
        directories: Sequence[str] = (),
        *,
        confined: bool = True,
        client: str = "",
    ) -> Session:
        """The session of that name, made where there is none; a new one without a name. Views of a `confined` one open
        nothing outside of `cwd` and `directories`.

        Args:
            name: 1 to 64 ASCII letters, digits, `-` and `_`, a letter or a digit first; `session_named` is its id.
            cwd: absolute directory.
            directories: further ones.
            confined: whether it is limited to these.
            client: the program that opens it, as that calls itself.

        Raises:
            InvalidRequestError: there can be no such name; a path is not absolute, or `cwd` is no directory; or the
                session has shown, or is showing, what lies outside of these directories.
            SessionInUseError, StoreError: as from `load`.
        """
        opening = Opening(cwd, directories, confined, client)
        if name is None:
            return await self._created(self._surroundings.minter.session(), opening)
        session_id = session_named(name)
        async with self._naming:
            there = self._open.get(session_id)
            if there is not None:
                there.check_place(opening.cwd, opening.directories, confined=confined)
                return there
            try:
                return await self._load(session_id, opening.cwd, opening.directories, confined=confined)
            except SessionNotFoundError:
                return await self._created(session_id, opening)

    async def _created(self, session_id: SessionId, opening: Opening) -> Session:
        check_working_directory(opening.cwd)
        try:
            session = await self._create(session_id, opening)
        except (StoreError, SessionReadOnlyError) as error:
            session_id = self._surroundings.minter.session()
            store, warning = self._homes.in_memory(session_id, _reason(error))
            session = await self._create(session_id, opening, store, [warning])
        return self._begin(session)

    async def _create(
        self,
        session_id: SessionId,
        opening: Opening,
        store: Store | None = None,
        warnings: Sequence[str] = (),
    ) -> Session:
        cwd, directories = opening.cwd, opening.directories
        now = self._surroundings.clock.now()
        surroundings = self._surroundings.knowing(opening.servers)
        surroundings = surroundings if store is None else replace(surroundings, store=store)
        row = SessionRow(session_id=session_id, cwd=cwd, directories=directories, created_at=now, updated_at=now)
        surroundings.store.create(row)
        try:
            project = find_project_environment(cwd, surroundings.environ, surroundings.settings.python)
            journal = self._journal(session_id, surroundings.redactor)
            notes = [*warnings, *([project.note] if project.note else []), *missing(directories)]
            parts = assemble(
                surroundings,
                session_id,
                cwd,
                directories,
                project,
                journal,
                notes=notes,
                confined=opening.confined,
                servers=opening.servers,
            )
            opened = parts.log.append(
                SessionOpened(
                    cwd=cwd,
                    directories=directories,
                    client=opening.client,
                    confined=opening.confined,
                    python=project.python,
                    packages=project.packages,
                    real=real_places(cwd, directories),
                )
            )
            for event in newly_named(parts):
                opened = parts.log.append(event)
            await journal.durable(opened)
        except BaseException:
            surroundings.store.release(session_id)
            raise
        return Session(parts)

    async def load(
        self,
        session_id: SessionId,
        cwd: str | None = None,
        directories: Sequence[str] | None = None,
        servers: Sequence[McpServer] = (),
    ) -> Session:
        """A session that the store holds, repaired if its last process died.

        Where the store can be read and not written, it can be looked at, and prompts are refused with the reason.

        Args:
            session_id: which.
            cwd: where it goes on, recorded where that is another directory than before; None for where it was.
            directories: all its additional ones, likewise.
            servers: its MCP servers from now on, as for `create`; what others answered before stays recorded.

        Raises:
            SessionNotFoundError, SessionInUseError.
            StoreError: it cannot be read.
            InvalidRequestError: a path that was given is not absolute, or `cwd` is no directory.
        """
        return await self._load(session_id, cwd, directories, servers=servers)

    async def _load(
        self,
        session_id: SessionId,
        cwd: str | None,
        directories: Sequence[str] | None,
        *,
        confined: bool = False,
        servers: Sequence[McpServer] = (),
    ) -> Session:
        return self._begin(await self._read(session_id, cwd, directories, confined=confined, servers=servers))

    async def _read(
        self,
        session_id: SessionId,
        cwd: str | None,
        directories: Sequence[str] | None,
        *,
        confined: bool,
        servers: Sequence[McpServer],
    ) -> Session:
        from .reopening import reopen  # of the prompt stage

        surroundings = replace(self._surroundings.knowing(servers), store=self._homes.of(session_id))
        reopened = partial(
            reopen, surroundings, session_id, cwd=cwd, directories=directories, confined=confined, servers=servers
        )
        try:
            try:
                session = await reopened(journal=self._journal(session_id, surroundings.redactor))
            except BaseException:
                surroundings.store.release(session_id)
                raise
        except (StoreError, SessionReadOnlyError) as error:
            logger.warning(
                "session %s is opened to be read only: %s", session_id, _reason(error), extra=SAID_IN_SESSION
            )
            journal = Journal(surroundings.store, session_id, surroundings.redactor, failure=_reason(error))
            session = await reopened(journal=journal)
        return session

    async def renew(self, session: Session) -> Session:
        """A read-only session opened again from what was kept of it, where its store takes changes again; else itself.

        What runs or waits in it ends. For a session that was opened by `open`.
        """
        session_id = session.session_id
        if self._open.get(session_id) is not session or not session.is_read_only:
            return self._open.get(session_id, session)
        try:
            if not await anyio.to_thread.run_sync(self._homes.takes_changes, session_id):
                return session
            fresh = await self._read(
                session_id, session.cwd, session.directories, confined=session.is_confined, servers=()
            )
        except EngineError as error:
            logger.warning("session %s cannot be opened again: %s", session_id, error)
            return session
        if fresh.is_read_only:
            return session
        with contextlib.suppress(SessionReadOnlyError):  # of values that were not kept yet
            await session.close()
        return self._begin(fresh)

    async def fork(
        self,
        session_id: SessionId,
        cwd: str | None = None,
        directories: Sequence[str] | None = None,
        servers: Sequence[McpServer] = (),
    ) -> Session:
        """A new session that goes on from the active branch of another one, which stays as it is.

        The other one may be open, here or elsewhere, and busy: what is on its log by now counts, and a run that is
        under way is one that was interrupted. Listings have no title of the new one until
        `Session.entitle`.

        Args:
            session_id: which.
            cwd: where the new one works; None for where the other one does.
            directories: all its additional ones, likewise.
            servers: its MCP servers, as for `create`.

        Raises:
            SessionNotFoundError, StoreError.
            InvalidRequestError: a path that was given is not absolute, or `cwd` is no directory.
        """
        from .forking import fork  # of the prompt stage

        if cwd is not None:
            check_working_directory(spelled(cwd))
        there = self._open.get(session_id)
        if there is not None:
            await there.durable(there.position - 1)
        surroundings, forked = self._surroundings, self._surroundings.minter.session()
        store = self._homes.beside(session_id, forked)
        await anyio.to_thread.run_sync(fork, store, session_id, forked, surroundings.clock.now())
        try:
            return await self._load(forked, cwd, directories, servers=servers)
        except BaseException:
            store.delete(forked)
            raise

    async def rows(
        self,
        *,
        cwd: str | None = None,
        titled: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """The sessions of the store, the most recently updated first: as `Store.rows`.

        `cwd` is a directory by any of its names: with or without a slash at its end, or through links.
        """

        def found() -> Sequence[SessionRow]:
            cwds = None if cwd is None else alike(self._homes.directories(), cwd)
            return self._homes.rows(cwds, titled, after, limit)

        return await anyio.to_thread.run_sync(found)

    def find(self, session_id: SessionId) -> Session:
        """Raises SessionNotFoundError for one that is not open in this process."""
        session = self._open.get(session_id)
        if session is None:
            raise SessionNotFoundError(session_id)
        return session

    async def idle(self) -> None:
        """Waits until no session of this process carries out a request, or has one waiting."""
        while busy := [session for session in self._open.values() if session.is_busy]:
            await busy[0].idle()

    async def close(self, session_id: SessionId) -> None:
        """Cancels what runs and lets other processes have the session."""
        session = self.find(session_id)
        await session.close()
        self._open.pop(session_id, None)
        self._homes.of(session_id).release(session_id)

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
            await anyio.to_thread.run_sync(self._homes.of(session_id).delete, session_id)
        await anyio.to_thread.run_sync(Scratch(self._surroundings.settings.state_dir, session_id).remove)

    async def close_all(self) -> None:
        """Closes what is open."""
        for session_id in list(self._open):
            await self.close(session_id)

    def _journal(self, session_id: SessionId, redactor: Redactor) -> Journal:
        """Acquires the session for writing: commits are reported to the journal from now on."""
        store = self._homes.of(session_id)
        journal = Journal(store, session_id, redactor)
        store.acquire(session_id, journal.committed)
        return journal

    def _begin(self, session: Session) -> Session:
        session.start(self._tasks)
        self._open[session.session_id] = session
        return session


def _reason(error: StoreError | SessionReadOnlyError) -> StoreError:
    # Without the id, because a session of another one is made, or is read, for this reason.
    return error if isinstance(error, StoreError) else StoreError(error.reason)


def open_sessions(
    *,
    store: Store,
    settings: Settings,
    environments: Callable[[], Environment],
    outliner: Callable[[], Outliner] | None,
    start_server: StartServer | None,
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
        outliner=outliner,
        start_server=start_server,
        models=models,
        clock=clock,
        minter=Minter(clock, entropy),
        environ=environ,
        redactor=redactor,
    )
    return Sessions(surroundings, tasks)
