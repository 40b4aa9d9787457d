"""Sessions that several connections of one process have, and what outlives a connection that is lost.

On stdio the client is the only one, and its end is the end of its turns. On a network a connection may break at any
moment while its user waits. So here a session belongs to the process. A turn goes on without a connection, and whoever
loads the session again gets all of it. Every connection that has the session is asked a question, and the first answer
counts. A question waits for QUESTION_SECONDS while no connection has the session, and then counts as dismissed. An idle
session that no connection has is closed after IDLE_SECONDS: its worker ends, and it stays in the store.

Knows no message and no method. Made by the server of many connections (`hosting`), used by `connection`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup

from engine import Editor, Form, FormAnswer, Host, PermissionAnswer, PermissionQuestion, Session
from engine.core.errors import SessionNotFoundError
from engine.core.ids import SessionId
from engine.log.forms import DISMISSED

QUESTION_SECONDS: Final = 600.0
"""How long a question waits while no connection has its session."""
IDLE_SECONDS: Final = 600.0
"""How long an idle session stays open that no connection has."""


class Member(Protocol):
    """A connection's part in a session: it can be asked, and may offer files."""

    @property
    def files(self) -> Editor: ...

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer: ...

    async def fill(self, form: Form) -> FormAnswer: ...


class SharedSession:
    """An open session and the connections that have it. It is itself asked each question, and answers if nobody can."""

    def __init__(self, session: Session, question_seconds: float) -> None:
        self.session: Final = session
        self._question_seconds = question_seconds
        self._members: dict[Member, Callable[[], None]] = {}
        """Each with what ends asking it; the latest stands last."""
        self._changed = anyio.Event()
        session.attach(self, None, self)

    def join(self, member: Member) -> None:
        """Ask this one too, also what waits already. Its files replace those of the others, if it offers any."""
        self._members[member] = self.session.ask_also(member)
        self._change()

    def leave(self, member: Member) -> None:
        """Ask this one no more, and use the files of another one."""
        if (stop := self._members.pop(member, None)) is not None:
            stop()
            self._change()

    def _change(self) -> None:
        offering = [member.files for member in self._members if member.files.offers or member.files.writes]
        self.session.attach(self, offering[-1] if offering else None, self)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def is_shared(self, member: Member | None) -> bool:
        """Whether another connection than this one's has the session."""
        return any(each is not member for each in self._members)

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Dismiss a question that nobody could be asked for a long time."""
        await self.abandoned(self._question_seconds)
        return PermissionAnswer(outcome="cancelled")

    async def fill(self, form: Form) -> FormAnswer:
        """Dismiss a form that nobody could be asked for a long time."""
        await self.abandoned(self._question_seconds)
        return DISMISSED

    async def abandoned(self, seconds: float) -> None:
        """Wait until no connection has had the session for that long."""
        while True:
            while self._members:
                await self._changed.wait()
            with anyio.move_on_after(seconds) as waited:
                await self._changed.wait()
            if waited.cancelled_caught:
                return


class Sharing:
    """The shared sessions of a process. They are watched in `tasks`."""

    def __init__(
        self,
        host: Host,
        tasks: TaskGroup,
        *,
        question_seconds: float = QUESTION_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._host = host
        self._tasks = tasks
        self._question_seconds = question_seconds
        self._idle_seconds = idle_seconds
        self._shared: dict[str, SharedSession] = {}
        self._locks: dict[str, tuple[anyio.Lock, list[None]]] = {}
        """By session, with an item for each task that has the lock or waits for it."""

    @asynccontextmanager
    async def changing(self, session_id: str) -> AsyncGenerator[None]:
        """Open, close or remove a session in the block, one at a time over all connections."""
        lock, users = self._locks.setdefault(session_id, (anyio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[session_id]

    def find(self, session_id: str) -> SharedSession | None:
        """Return the open session of that id, if there is one."""
        shared = self._shared.get(session_id)
        return shared if shared is not None and self._is_open(shared) else None

    def share(self, session: Session) -> SharedSession:
        """Return the sharing of a session that was opened, or of one that is open already."""
        shared = self.find(session.session_id)
        if shared is None:
            shared = self._shared[session.session_id] = SharedSession(session, self._question_seconds)
            self._tasks.start_soon(self._close_when_abandoned, shared)
        return shared

    @property
    def has_open(self) -> bool:
        """Whether a session is open, or being opened."""
        return bool(self._locks) or any(map(self._is_open, self._shared.values()))

    def _is_open(self, shared: SharedSession) -> bool:
        try:
            return self._host.sessions.find(SessionId(shared.session.session_id)) is shared.session
        except SessionNotFoundError:
            return False

    async def _close_when_abandoned(self, shared: SharedSession) -> None:
        session = shared.session
        while self._is_open(shared):
            await shared.abandoned(self._idle_seconds)
            await session.idle()
            async with self.changing(session.session_id):
                if self._is_open(shared) and not shared.is_shared(None) and not session.is_busy:
                    with suppress(SessionNotFoundError):
                        await self._host.sessions.close(session.session_id)
        if self._shared.get(session.session_id) is shared:
            del self._shared[session.session_id]
