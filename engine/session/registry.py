"""The sessions of one process: made, named, found, loaded, forked and closed, each in its store.

The store lets only one process of the machine write a session. A full, read-only, damaged or locked disk must not keep
a person from working: then a new session lives in memory, with a warning, and ends with the process (`SessionStores`).
`OpenRequest` checks what a session is opened with before anything is made. Made by `Host`. Over 400 lines, because each
way to open a session has its own arguments and errors.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeVarTuple

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ..core.clock import Clock, Entropy
from ..core.errors import EngineError, InvalidRequestError, SessionNotFoundError, SessionReadOnlyError, StoreError
from ..core.ids import Minter, SessionId
from ..core.mcp_servers import McpServer
from ..core.settings import Settings
from ..core.text import cut_line, title
from ..files.outline.model import Outliner
from ..log.events.session import SessionOpened, WorkspaceCloned
from ..log.redaction import Redactor
from ..log.store_protocol import Place, SessionRow, Store
from ..runtime.environment import Environment, StartServer
from .directories import (
    Scratch,
    additional,
    alike,
    check_working_directory,
    find_project_environment,
    missing,
    real_places,
    spelled,
)
from .journal import Journal
from .model_choice import Models
from .pages import OpenPage
from .parts import HostServices, assemble, newly_named
from .session import Session

if TYPE_CHECKING:  # of the first picture
    from ..runtime.picture_decoder import PictureDecoder
    from .clones import Clones
    from .telemetry import Telemetry

_SHOWN_CHARS: Final = 80
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def session_named(name: str) -> SessionId:
    """Return the id of the session of that name, which may not exist.

    Raises InvalidRequestError for an invalid name.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidRequestError(
            f"{cut_line(repr(name), _SHOWN_CHARS)} is not a session name: use 1 to 64 ASCII letters, digits, - and _"
        )
    return SessionId(f"named_{name}")


class OpenRequest:
    """Where to open a session, and for whom. Raises InvalidRequestError for a relative path."""

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


logger = logging.getLogger(__name__)
SHOWN_IN_SESSION: Final = {"is_said_in_session": True}
"""Marks a log record whose message the session shows, too."""
INSTRUCTION_CHARS: Final = 16_000
"""Characters of a client's instructions, about 4,000 tokens."""
TOO_LONG: Final = "the system prompt has {given:,} characters; at most {limit:,} are allowed"
WARNING: Final = "This session is not saved: it ends with this process. The reason: {reason}."


class SessionStores:
    """The durable store, and one in memory that is made when it is first needed."""

    def __init__(self, durable: Store, clock: Clock) -> None:
        self.durable: Final = durable
        self._clock = clock
        self._memory: Store | None = None
        self._in_memory: set[SessionId] = set()

    def of(self, session_id: SessionId) -> Store:
        """Return the store of the session, which may not exist."""
        if self._memory is not None and session_id in self._in_memory:
            return self._memory
        return self.durable

    def in_memory(self, session_id: SessionId, reason: Exception) -> tuple[Store, str]:
        """Return the store for a session that the durable one refused, and the warning."""
        if self._memory is None:
            from ..log.store.memory import MemoryStore  # rarely needed

            self._memory = MemoryStore(self._clock)
        self._in_memory.add(session_id)
        logger.warning("session %s is in memory only: %s", session_id, reason, extra=SHOWN_IN_SESSION)
        return self._memory, WARNING.format(reason=reason)

    def beside(self, session_id: SessionId, new: SessionId) -> Store:
        """Return the store of a session, for a new one that is made from it."""
        if session_id in self._in_memory:
            self._in_memory.add(new)
        return self.of(session_id)

    def rows(
        self,
        cwds: Collection[str] | None,
        titled: bool,
        archived: bool | None,
        after: Place | None,
        limit: int | None,
    ) -> Sequence[SessionRow]:
        """As `Store.rows`, over both."""
        found = self.durable.rows(cwds=cwds, titled=titled, archived=archived, after=after, limit=limit)
        if self._memory is None:
            return found
        found = [*found, *self._memory.rows(cwds=cwds, titled=titled, archived=archived, after=after, limit=limit)]
        return sorted(found, key=lambda row: (row.updated_at, row.session_id), reverse=True)[:limit]

    def takes_changes(self, session_id: SessionId) -> bool:
        """Return whether changes of the session can be stored again. Raises as `acquire`.

        No one here may write to it during the call or afterwards.
        """
        store, errors = self.of(session_id), list[Exception]()
        store.release(session_id)
        store.acquire(session_id, lambda _, error: None if error is None else errors.append(error))
        try:
            store.retitle(session_id, store.row(session_id).title)
        finally:
            store.release(session_id)  # waits for the commit
        return not errors

    def directories(self) -> set[str]:
        """Return the working directories of all sessions."""
        found = set(self.durable.directories())
        return found if self._memory is None else found.union(self._memory.directories())


class Sessions:
    """Every session that this process has open, each followed by `telemetry`."""

    def __init__(self, services: HostServices, tasks: TaskGroup, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry
        self._services = services
        self._stores = SessionStores(services.store, services.clock)
        self._tasks = tasks
        self._open: dict[SessionId, Session] = {}
        self._releasing: dict[SessionId, anyio.Event] = {}
        """Set when a session that was closed has been released."""
        self._naming = anyio.Lock()
        """Held while a named session is opened, so that it is made once."""

    def instructions(self, text: str) -> str:
        """Return a client's instructions for a session's prompts, without blanks around them; see `Session.instruct`.

        Raises InvalidRequestError if they are too long.
        """
        text = text.strip()
        # In English a token has about four characters, so they take at most an eighth of the context.
        limit = min(self._services.settings.context_budget // 2, INSTRUCTION_CHARS)
        if len(text) > limit:
            raise InvalidRequestError(TOO_LONG.format(given=len(text), limit=limit))
        return text

    def directory_of(self, session_id: SessionId, cwd: str) -> str:
        """Return where a session works that is opened in `cwd`: there, or in its own clone (`workspaces`).

        Raises InvalidRequestError for a relative path.
        """
        return self._services.directory_of(session_id, spelled(cwd))

    async def create(self, cwd: str, directories: Sequence[str] = (), servers: Sequence[McpServer] = ()) -> Session:
        """Create a session in `cwd`. It is durable when this returns.

        A missing additional directory causes a warning. If the store cannot take the session, it lives in memory, with
        a warning. Statements may call the MCP `servers`, which are connected by `Session.connect` or the first prompt.

        Raises:
            InvalidRequestError: a path is not absolute, or `cwd` is not a directory.
        """
        return await self._created(self._services.minter.session(), OpenRequest(cwd, directories, servers=servers))

    async def open(
        self,
        name: str | None,
        cwd: str,
        directories: Sequence[str] = (),
        *,
        confined: bool = True,
        client: str = "",
    ) -> Session:
        """Open the session of that name, or create it; without a name, create one.

        Args:
            name: 1 to 64 ASCII letters, digits, `-` and `_`, a letter or digit first; `session_named` is its id.
            cwd: absolute directory.
            directories: further ones.
            confined: whether views open only files in these.
            client: the program that opens it, by its own name.

        Raises:
            InvalidRequestError: the name is invalid; a path is not absolute, or `cwd` is not a directory; or the
                session has shown, or is showing, files outside of these directories.
            SessionInUseError, StoreError: as from `load`.
        """
        opening = OpenRequest(cwd, directories, confined, client)
        if name is None:
            return await self._created(self._services.minter.session(), opening)
        session_id = session_named(name)
        opening = OpenRequest(self.directory_of(session_id, cwd), directories, confined, client)
        async with self._naming:
            there = self._open.get(session_id)
            if there is not None:
                there.check_place(opening.cwd, opening.directories, confined=confined)
                return there
            try:
                return await self._load(session_id, opening.cwd, opening.directories, confined=confined)
            except SessionNotFoundError:
                return await self._created(session_id, opening)

    async def _created(self, session_id: SessionId, opening: OpenRequest) -> Session:
        if not self._is_clone(opening.cwd):
            check_working_directory(opening.cwd)
        try:
            session = await self._create(session_id, opening)
        except (StoreError, SessionReadOnlyError) as error:
            session_id = self._services.minter.session()
            store, warning = self._stores.in_memory(session_id, _reason(error))
            session = await self._create(session_id, opening, store, [warning])
        return self._begin(session)

    async def _create(
        self,
        session_id: SessionId,
        opening: OpenRequest,
        store: Store | None = None,
        warnings: Sequence[str] = (),
    ) -> Session:
        cwd, directories = self._services.directory_of(session_id, opening.cwd), opening.directories
        now = self._services.clock.now()
        services = self._services.for_servers(opening.servers)
        services = services if store is None else replace(services, store=store)
        row = SessionRow(session_id=session_id, cwd=cwd, directories=directories, created_at=now, updated_at=now)
        await _on_thread(services.store.create, row)
        try:
            cloned = await self._cloned(session_id, cwd)
            project = find_project_environment(cwd, services.environ, services.settings.python)
            journal = await self._journal(session_id, services.redactor)
            notes = [*warnings, *([project.note] if project.note else []), *missing(directories), *_lines(cloned)]
            parts = assemble(
                services,
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
            for event in (*(() if cloned is None else (cloned,)), *newly_named(parts)):
                opened = parts.log.append(event)
            await journal.durable(opened)
        except BaseException:
            self._close_clone(session_id)
            if services.clones is not None:
                await _on_thread(services.clones.remove, session_id)
            await _on_thread(services.store.release, session_id)
            raise
        return Session(parts)

    def _is_clone(self, cwd: str) -> bool:
        return self._services.clones is not None and self._services.clones.is_clone(cwd)

    async def _cloned(self, session_id: SessionId, cwd: str) -> WorkspaceCloned | None:
        """Make the clone of a new session, if it has one. Raises InvalidRequestError."""
        if self._services.clones is None:
            return None
        return await anyio.to_thread.run_sync(self._services.clones.provide, session_id, cwd)

    def _close_clone(self, session_id: SessionId) -> None:
        if self._services.clones is not None:
            self._services.clones.close(session_id)

    async def load(
        self,
        session_id: SessionId,
        cwd: str | None = None,
        directories: Sequence[str] | None = None,
        servers: Sequence[McpServer] = (),
    ) -> Session:
        """Load a session from the store, and repair it if its last process died.

        If the store can be read but not written, the session is read-only: prompts are refused with the reason.

        Args:
            session_id: which.
            cwd: where it goes on, recorded if it is another directory; None for the last one.
            directories: all additional directories, likewise.
            servers: its MCP servers from now on, as for `create`. Recorded answers of others remain.

        Raises:
            SessionNotFoundError, SessionInUseError.
            StoreError: it cannot be read.
            InvalidRequestError: a given path is not absolute, or `cwd` is not a directory.
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

        services = replace(self._services.for_servers(servers), store=self._stores.of(session_id))
        reopened = partial(
            reopen, services, session_id, cwd=cwd, directories=directories, confined=confined, servers=servers
        )
        try:
            try:
                session = await reopened(journal=await self._journal(session_id, services.redactor))
            except BaseException:
                self._close_clone(session_id)
                await _on_thread(services.store.release, session_id)
                raise
        except (StoreError, SessionReadOnlyError) as error:
            logger.warning("session %s is opened read-only: %s", session_id, _reason(error), extra=SHOWN_IN_SESSION)
            journal = Journal(services.store, session_id, services.redactor, failure=_reason(error))
            session = await reopened(journal=journal)
        return session

    async def renew(self, session: Session) -> Session:
        """Open a read-only session again if its store takes changes; return it, or the old one.

        What runs or waits in it ends. For a session that was opened by `open`.
        """
        session_id = session.session_id
        if self._open.get(session_id) is not session or not session.is_read_only:
            return self._open.get(session_id, session)
        try:
            if not await anyio.to_thread.run_sync(self._stores.takes_changes, session_id):
                return session
            fresh = await self._read(
                session_id, session.cwd, session.directories, confined=session.is_confined, servers=()
            )
        except EngineError as error:
            logger.warning("session %s cannot be opened again: %s", session_id, error)
            return session
        if fresh.is_read_only:
            return session
        with contextlib.suppress(SessionReadOnlyError):  # for unsaved values
            await session.close()
        return self._begin(fresh)

    async def fork(
        self,
        session_id: SessionId,
        cwd: str | None = None,
        directories: Sequence[str] | None = None,
        servers: Sequence[McpServer] = (),
    ) -> Session:
        """Create a session that goes on from another one's active branch.

        The original is unchanged. It may be open, here or in another process, and busy. The fork has what is on its log
        now; a running turn counts as interrupted. Listings show no title of the fork before `Session.entitle`.

        Args:
            session_id: which.
            cwd: where the fork works; None for the original's directory.
            directories: all additional directories, likewise.
            servers: its MCP servers, as for `create`.

        Raises:
            SessionNotFoundError, StoreError.
            InvalidRequestError: a given path is not absolute, or `cwd` is not a directory.
        """
        from .reopening import fork  # of the prompt stage

        if cwd is not None and not self._is_clone(spelled(cwd)):
            check_working_directory(spelled(cwd))
        there = self._open.get(session_id)
        if there is not None:
            await there.durable(there.position - 1)
        services, forked = self._services, self._services.minter.session()
        store = self._stores.beside(session_id, forked)
        await anyio.to_thread.run_sync(fork, store, session_id, forked, services.clock.now())
        try:
            return await self._load(forked, cwd, directories, servers=servers)
        except BaseException:
            await _on_thread(store.delete, forked)
            raise

    async def rows(
        self,
        *,
        cwd: str | None = None,
        titled: bool = False,
        archived: bool | None = None,
        after: Place | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """List the sessions of the store, the most recently updated first, as `Store.rows`.

        `cwd` is a directory by any of its names: with a trailing slash, or through links. One of `workspaces` stands
        for all its clones.
        """
        clones = self._services.clones

        def found() -> Sequence[SessionRow]:
            cwds: list[str] | None = None
            if cwd is not None:
                known = self._stores.directories()
                cwds = [*alike(known, cwd), *([] if clones is None else clones.alike(known, cwd))]
            return self._stores.rows(cwds, titled, archived, after, limit)

        return await anyio.to_thread.run_sync(found)

    def find(self, session_id: SessionId) -> Session:
        """Return an open session. Raises SessionNotFoundError."""
        session = self._open.get(session_id)
        if session is None:
            raise SessionNotFoundError(session_id)
        return session

    async def idle(self) -> None:
        """Wait until no session of this process runs a request, or has one waiting."""
        while busy := [session for session in self._open.values() if session.is_busy]:
            await busy[0].idle()

    def offer_models(self) -> None:
        """Publish to each open session that other models can be chosen than before."""
        for session in self._open.values():
            session.offer_models()

    async def close(self, session_id: SessionId) -> None:
        """Cancel what runs, and let other processes open the session."""
        session = self.find(session_id)
        await session.close()
        self._open.pop(session_id, None)
        self._close_clone(session_id)
        released = self._releasing[session_id] = anyio.Event()
        try:
            await _on_thread(self._stores.of(session_id).release, session_id)
        finally:
            del self._releasing[session_id]
            released.set()

    async def retitle(self, session_id: SessionId, text: str) -> str:
        """Give a session another title, which no prompt replaces; return it as it is stored.

        The session may be open here, or nowhere. The title is the first line of the text, cut.

        Raises:
            InvalidRequestError: the text is blank.
            SessionNotFoundError.
            SessionInUseError: another process has it open.
            SessionReadOnlyError, StoreError: it cannot be written.
        """
        new = title(self._services.redactor.redact(text), "")
        if not new:
            raise InvalidRequestError("the title is blank")
        there = self._open.get(session_id)
        if there is not None:
            await there.retitle(new)
        else:
            from .reopening import retitle  # of the prompt stage

            store = self._stores.of(session_id)
            await anyio.to_thread.run_sync(retitle, store, session_id, new, self._services.clock.now())
        return new

    async def status(self, session_id: SessionId) -> Literal["open", "saved"]:
        """Tell whether a session is open in this process. Raises SessionNotFoundError."""
        if session_id in self._open:
            return "open"
        await anyio.to_thread.run_sync(self._stores.of(session_id).row, session_id)
        return "saved"

    async def archive(self, session_id: SessionId, *, archived: bool) -> None:
        """Put a session away in lists, or bring it back. One that is put away is closed first, if it is open here.

        Raises:
            SessionNotFoundError.
            SessionInUseError: it is put away, and another process has it open.
            StoreError: the store cannot be written.
        """
        if archived and session_id in self._open:
            await self.close(session_id)
        await anyio.to_thread.run_sync(self._stores.of(session_id).archive, session_id, archived)

    async def delete(self, session_id: SessionId) -> None:
        """Close the session if it is open here, and remove it from the store for good.

        Does nothing if it does not exist.

        Raises:
            SessionInUseError: another process has it open.
            StoreError: it cannot be written.
        """
        if session_id in self._open:
            await self.close(session_id)
        with contextlib.suppress(SessionNotFoundError):
            await anyio.to_thread.run_sync(self._stores.of(session_id).delete, session_id)
        await anyio.to_thread.run_sync(Scratch(self._services.settings.state_dir, session_id).remove)
        if self._services.clones is not None:
            await anyio.to_thread.run_sync(self._services.clones.remove, session_id)

    async def close_all(self) -> None:
        """Close every open session."""
        for session_id in list(self._open):
            await self.close(session_id)

    async def _journal(self, session_id: SessionId, redactor: Redactor) -> Journal:
        """Acquire the session for writing; the journal receives its commits."""
        if (released := self._releasing.get(session_id)) is not None:
            await released.wait()
        store = self._stores.of(session_id)
        journal = Journal(store, session_id, redactor)
        await _on_thread(store.acquire, session_id, journal.committed)
        return journal

    def _begin(self, session: Session) -> Session:
        session.start(self._tasks)
        self._open[session.session_id] = session
        if self._telemetry is not None:
            self._telemetry.follow(session, self._tasks)
        return session


_Values = TypeVarTuple("_Values")


async def _on_thread(call: Callable[[*_Values], None], *values: *_Values) -> None:
    """Make a call that may wait for a database. A cancellation waits for its end, so its effect is known."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(call, *values)


def _lines(cloned: WorkspaceCloned | None) -> list[str]:
    if cloned is None:
        return []
    from .clones import clone_lines  # only with `workspaces`

    return clone_lines(cloned)


def _reason(error: StoreError | SessionReadOnlyError) -> StoreError:
    # Without the id, because the error is about another session then.
    return error if isinstance(error, StoreError) else StoreError(error.reason)


def open_sessions(
    *,
    store: Store,
    settings: Settings,
    environments: Callable[[], Environment],
    outliner: Callable[[], Outliner] | None,
    decoder: Callable[[], PictureDecoder] | None,
    start_server: StartServer | None,
    models: Models,
    clock: Clock,
    entropy: Entropy,
    environ: Mapping[str, str],
    redactor: Redactor,
    tasks: TaskGroup,
    open_page: OpenPage | None = None,
    telemetry: Telemetry | None = None,
) -> Sessions:
    """Make the sessions of a process, none of them open. They are served in `tasks`."""
    clones: Clones | None = None
    if settings.workspaces:
        from .clones import Clones  # only then

        clones = Clones(settings, environ)
    services = HostServices(
        store=store,
        settings=settings,
        environments=environments,
        outliner=outliner,
        decoder=decoder,
        start_server=start_server,
        models=models,
        clock=clock,
        minter=Minter(clock, entropy),
        environ=environ,
        redactor=redactor,
        open_page=open_page,
        clones=clones,
    )
    return Sessions(services, tasks, telemetry)
