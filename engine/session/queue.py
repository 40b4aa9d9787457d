"""The queue of a session's requests, and the task that serves them one at a time.

Owns the order in which requests become turns, what a cancel withdraws, and that each request ends, whatever happens.
Must not know how one is carried out: that is `turns`. Owned by `Session`.

Prompts and cells wait in one queue, because both need the one namespace. `take` registers a request before anything is
awaited, so that a cancel which is read after it finds it. What runs is ended by telling it to end and waiting until it
has: a ticket always ends, with the event that its requester must see last. Two kinds of prompt never wait: a command
that only looks is answered at once, and a steer joins the turn that is running and ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..core.errors import EngineError, SessionBusyError, TurnFailedError
from ..log.events.conversation import PromptKind
from ..log.events.session import PromptQueued, PromptWithdrawn
from .parts import SessionParts
from .tickets import Ticket, end_at

if TYPE_CHECKING:
    from .turns import Turns

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 32
"""Requests that may wait; a client that sends more is told so."""


class RequestQueue:
    """First in, first out. `turns` is what serves; made when it is first needed."""

    def __init__(self, parts: SessionParts, turns: Callable[[], Turns]) -> None:
        self._parts = parts
        self._turns = turns
        self._waiting: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._steering: list[Ticket] = []
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._has_served = False

    @property
    def is_busy(self) -> bool:
        """Whether a request that came now would have to wait."""
        return self._running is not None or bool(self._waiting)

    def announced(self) -> Sequence[Ticket]:
        """What waits and is announced on the log, in order."""
        return [ticket for ticket in self._waiting if ticket.prompt_kind == "follow_up"]

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
            self._turns().cancel()

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
        seconds = self._turns().next_look if self._has_served else None
        while seconds is not None and not await self._is_woken(seconds):
            seconds = await self._look_after()
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

    async def _look_after(self) -> float | None:
        try:
            return await self._turns().look_after()
        except EngineError:
            # The log takes nothing any more, which whoever asks next is told.
            return None
        except Exception:
            logger.exception("what was left to do in session %s failed", self._parts.session_id)
            return None

    async def _serve_one(self, ticket: Ticket) -> None:
        self._running = ticket
        try:
            turns = self._turns()
            self._has_served = True
            end = await turns.carry_out(ticket)
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
        answered = self._turns().answer_at_once(ticket.text, ticket.message_id)
        if answered:
            ticket.finish(end_at(self._parts.log, "end_turn"))
        return answered

    def _steers(self, wanted: PromptKind | None) -> bool:
        return wanted == "steer" or (wanted is None and self._parts.policy.option("while_running") == "steer")

    def _steer(self, ticket: Ticket) -> bool:
        if not self._turns().steer(ticket.message("steer")):
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
