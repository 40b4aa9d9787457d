"""The sessions of one process: creates, loads, finds and closes them, and chooses their store."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ...context.model import Model
from ...core.clock import Clock, Entropy
from ...core.errors import EngineError, InvalidRequestError, SessionNotFoundError, SessionReadOnlyError, StoreError
from ...core.ids import Minter, SessionId
from ...core.mcp_servers import McpServer
from ...core.settings import Settings
from ...core.text import cut_line
from ...files.outline.model import Outliner
from ...log.events.session import SessionOpened
from ...log.redaction import Redactor
from ...log.store_protocol import Place, SessionRow, Store
from ...runtime.environment import Environment, StartServer
from ..directories import (
    Scratch,
    additional,
    alike,
    check_working_directory,
    find_project_environment,
    missing,
    real_places,
    spelled,
)
from ..journal import Journal
from ..parts import Surroundings, assemble, newly_named
from ..session import Session

# What a session is opened with: its name, its directories, its MCP servers, who opens it.
#
# All of it is checked here, before anything is made. Must not know the store. Called by `registry`.

_SHOWN_CHARS: Final = 80
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def session_named(name: str) -> SessionId:
    """The id of the session of that name, which may not be there. Raises InvalidRequestError for what is no name."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequestError(
            f"{cut_line(repr(name), _SHOWN_CHARS)} is no name of a session: take 1 to 64 ASCII letters, digits, - and _"
        )
    return SessionId(f"named_{name}")


class Opening:
    """Where a session is to be opened, and for whom. Raises InvalidRequestError for a path that is not absolute."""

    __slots__ = ("client", "confined", "cwd", "directories", "servers")

    def __init__(
        self,
        cwd: str,
        directories: Sequence[str],
        confined: bool = False,
        client: str = "",
        servers: Sequence[McpServer] = (),
    ) -> None:
        self.cwd = spelled(cwd)
        self.directories = additional(directories, self.cwd)
        self.confined = confined
        self.client = client
        self.servers = tuple(servers)


# homes:
# Which store a session lives in: the durable one, or memory where that cannot take a new one.
#
# A full or read-only disk, a damaged database or one that somebody keeps locked must not keep a person from working:
# the session is made all the same, is warned of, and is gone with the process. Must not know what a session is.
# Called by `registry`.

logger = logging.getLogger(__name__)
SAID_IN_SESSION: Final = {"is_said_in_session": True}
"""Of a log record about what whoever sees the session reads there, too."""
WARNING: Final = "Nothing of this session is kept: it ends with this process. The reason: {reason}."


class Homes:
    """The durable store, and one in memory that is made when it is first needed."""

    def __init__(self, durable: Store, clock: Clock) -> None:
        self.durable: Final = durable
        self._clock = clock
        self._memory: Store | None = None
        self._in_memory: set[SessionId] = set()

    def of(self, session_id: SessionId) -> Store:
        """Where the session is, or would be."""
        if self._memory is not None and session_id in self._in_memory:
            return self._memory
        return self.durable

    def in_memory(self, session_id: SessionId, reason: Exception) -> tuple[Store, str]:
        """Where a new session goes that the durable store did not take, and the warning, which is logged too."""
        if self._memory is None:
            from ...log.store.memory import MemoryStore  # for start-up: hardly any process needs it

            self._memory = MemoryStore(self._clock)
        self._in_memory.add(session_id)
        logger.warning("session %s is in memory only: %s", session_id, reason, extra=SAID_IN_SESSION)
        return self._memory, WARNING.format(reason=reason)

    def beside(self, session_id: SessionId, new: SessionId) -> Store:
        """Where a session is, and a new one that is made of it goes."""
        if session_id in self._in_memory:
            self._in_memory.add(new)
        return self.of(session_id)

    def rows(
        self, cwds: Collection[str] | None, titled: bool, after: Place | None, limit: int | None
    ) -> Sequence[SessionRow]:
        """As `Store.rows`, over both."""
        found = self.durable.rows(cwds=cwds, titled=titled, after=after, limit=limit)
        if self._memory is None:
            return found
        both = [*found, *self._memory.rows(cwds=cwds, titled=titled, after=after, limit=limit)]
        return sorted(both, key=lambda row: (row.updated_at, row.session_id), reverse=True)[:limit]

    def takes_changes(self, session_id: SessionId) -> bool:
        """Whether a change of the session is kept by now; nobody here writes to it afterwards. Raises as `acquire`."""
        store, errors = self.of(session_id), list[Exception]()
        store.release(session_id)
        store.acquire(session_id, lambda _, error: None if error is None else errors.append(error))
        try:
            store.retitle(session_id, store.row(session_id).title)
        finally:
            store.release(session_id)  # which waits until it is kept, or is not
        return not errors

    def directories(self) -> set[str]:
        """The working directories of all sessions."""
        found = set(self.durable.directories())
        return found if self._memory is None else found.union(self._memory.directories())


# registry:
# The sessions of one process: makes them, loads them, finds them, closes them all.
#
# One writer per session in the whole machine, held by the store. Made by `Host`. More than 300 lines, because what a
# session may be opened with is said for each way to open one.


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
        from .reopening import fork  # of the prompt stage

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
