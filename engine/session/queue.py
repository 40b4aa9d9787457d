"""The queue of a session's requests, and the task that serves them one at a time.

Owns the order in which requests become turns, what a cancel withdraws, and that each request ends, whatever happens.
Must not know how one is served: that is `serving`, loaded with the first request. Owned by `Session`.

Prompts and cells wait in one queue, because both need the one namespace. `take` registers a request before anything is
awaited, so that a cancel which is read after it finds it. What runs is ended by telling it to end and waiting until it
has: a ticket always ends, with the event that its requester must see last. Two kinds of prompt never wait: a command
that only looks is answered at once, and a steer joins the turn that is running and ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from anyio.abc import TaskGroup

from ..core.errors import EngineError, SessionBusyError, TurnFailedError
from ..files.sources import Editor
from ..log.events.conversation import PromptKind
from ..log.events.session import PromptQueued, PromptWithdrawn
from ..log.permissions import Permissions
from .parts import SessionParts
from .requests import Ticket, end_at

if TYPE_CHECKING:  # of the prompt stage
    from .serving import RequestServer
    from .session_runtime import SessionRuntime

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 32
"""Requests that may wait; a client that sends more is told so."""


class RequestQueue:
    """First in, first out. What serves the requests is made when it is first needed."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._server: RequestServer | None = None
        self._tasks: TaskGroup | None = None
        self._asked: tuple[Permissions | None, Editor | None] = (None, None)
        self._waiting: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._steering: list[Ticket] = []
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._has_served = False

    @property
    def server(self) -> RequestServer:
        """What serves the requests."""
        if self._server is None:
            from .serving import RequestServer  # of the prompt stage

            self._server = RequestServer(self._parts, self._waiting)
            self._server.runtime.attach(*self._asked)
            self.connect()
            if self._tasks is not None:
                self._tasks.start_soon(self._server.runtime.prepare)
        return self._server

    @property
    def runtime(self) -> SessionRuntime | None:
        """What the session's statements run in; None before the first request."""
        return None if self._server is None else self._server.runtime

    def attach(self, permissions: Permissions, editor: Editor | None) -> None:
        """Set who is asked from now on, and which editor's unsaved texts come before the disk."""
        self._asked = (permissions, editor)
        if self._server is not None:
            self._server.runtime.attach(permissions, editor)

    def start(self, tasks: TaskGroup) -> None:
        """Begin to serve requests."""
        self._tasks = tasks
        tasks.start_soon(self.serve)

    def connect(self) -> None:
        """Begin to connect the MCP servers, beside everything else; the first request does it at the latest."""
        if self._parts.servers is not None and self._tasks is not None:
            self._parts.servers.connect(self._tasks)

    @property
    def is_busy(self) -> bool:
        """Whether a request that came now would have to wait."""
        return self._running is not None or bool(self._waiting)

    def take(self, ticket: Ticket, wanted: PromptKind | None) -> None:
        """Registers a request, or answers it at once, or has it steer the turn that is running.

        Raises:
            SessionBusyError: the session is closing, or too many requests wait.
            SessionReadOnlyError: nothing can be recorded any more.
        """
        # First, because a session that nothing can be recorded of may be closed for that, and another has its place.
        if self._parts.journal.failure is not None:
            raise self._parts.journal.failure
        if self._closing:
            raise SessionBusyError(f"session {self._parts.session_id} is closed; load it again")
        if len(self._waiting) >= MAX_QUEUED:
            raise SessionBusyError(f"{MAX_QUEUED} prompts wait already; cancel, or wait for their turns")
        if self.is_busy:
            if not ticket.cell and (self._answered_at_once(ticket) or (self._steers(wanted) and self._steer(ticket))):
                return
            self._parts.log.append(PromptQueued(message_id=ticket.message_id, text=ticket.text))
        self._waiting.append(ticket)
        self._idle.clear()
        self._wake.set()

    def cancel(self, ticket: Ticket | None) -> None:
        """Withdraws what waits, then ends what runs; or only what belongs to `ticket`. Does nothing when idle."""
        for waiting in [waiting for waiting in self._waiting if ticket in (None, waiting)]:
            self._waiting.remove(waiting)
            self._withdraw(waiting)
        if self._running is not None and (ticket in (None, self._running) or ticket in self._steering):
            self.server.cancel()

    def begin_close(self) -> None:
        """Takes no request any more and cancels those there are."""
        self._closing = True
        self.cancel(None)
        self._wake.set()

    async def idle(self) -> None:
        """Waits until nothing runs and nothing waits."""
        await self._idle.wait()

    async def serve(self) -> None:
        """Serves requests until `begin_close`."""
        while not self._closing:
            while self._waiting:
                await self._serve_one(self._waiting.popleft())
            self._idle.set()
            # Whoever was waited for goes on first, perhaps with its next request.
            await asyncio.sleep(0)
            if not self._waiting and not self._closing:
                await self._rest()
        self._idle.set()

    async def _rest(self) -> None:
        """Waits for the next request; what has waited for nobody to wait is done meanwhile."""
        self._wake.clear()
        seconds = self.server.runtime.next_look if self._has_served else None
        while seconds is not None and not await self._is_woken(seconds):
            seconds = await self._run_idle_work()
        await self._wake.wait()

    async def _is_woken(self, seconds: float) -> bool:
        """Whether the next request is there, or no other will be, by so many seconds from now."""
        over = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            over.cancel()
        if not self._waiting and not self._closing:
            self._wake.clear()
        return self._wake.is_set()

    async def _run_idle_work(self) -> float | None:
        try:
            return await self.server.runtime.run_idle_work()
        except EngineError:
            # The log takes nothing any more, which whoever asks next is told.
            return None
        except Exception:
            logger.exception("what was left to do in session %s failed", self._parts.session_id)
            return None

    async def _serve_one(self, ticket: Ticket) -> None:
        self._running = ticket
        try:
            server = self.server
            self._has_served = True
            end = await server.serve(ticket)
        except EngineError as error:
            end = end_at(self._parts.log, "error", failure=error)
        except Exception:
            # A defect of ours must not take the other sessions of this process with it.
            logger.exception("turn %s of session %s failed", ticket.message_id, self._parts.session_id)
            end = end_at(self._parts.log, "error", failure=TurnFailedError(self._parts.session_id))
        self._running = None
        for ended in (ticket, *self._steering):
            ended.finish(end)
        self._steering.clear()

    def _answered_at_once(self, ticket: Ticket) -> bool:
        """Whether it asked for what can be answered while a turn is running; nothing of that is recorded."""
        answered = ticket.request is None and self.server.answer_at_once(ticket.text, ticket.message_id)
        if answered:
            ticket.finish(end_at(self._parts.log, "end_turn"))
        return answered

    def _steers(self, wanted: PromptKind | None) -> bool:
        return wanted == "steer" or (wanted is None and self._parts.policy.option("while_running") == "steer")

    def _steer(self, ticket: Ticket) -> bool:
        if not self.server.steer(ticket):
            return False
        self._steering.append(ticket)
        return True

    def _withdraw(self, ticket: Ticket) -> None:
        failure: EngineError | None = None
        try:
            if ticket.prompt_kind == "follow_up":
                self._parts.log.append(PromptWithdrawn(message_id=ticket.message_id))
        except EngineError as error:
            failure = error
        ticket.finish(end_at(self._parts.log, "cancelled", failure=failure))
