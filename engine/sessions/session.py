"""One session: its log with the folds over it, its queue of requests, and the task that serves them one at a time.

Owns the order in which requests become turns and what a cancel withdraws. Must not know any protocol, nor how a turn is
carried out: that is `turns`, loaded with the first request. Made by `assembly`, used by the adapters.

A request is a prompt or a cell, and both wait in one queue, because both need the one namespace. `accept` and `cell`
register theirs before anything is awaited, so that a cancel which is read after it finds it. What runs is ended by
telling it to end and waiting until it has: a ticket always ends, with the event that its requester must see last.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import anyio
from anyio.abc import TaskGroup

from ..errors import EngineError, SessionBusyError, StatementWithdrawnError, TurnFailedError
from ..events import AnyEvent, Event
from ..events.conversation import Attachment, PromptKind, StopCause, UserMessage
from ..events.execution import ExecutionFinished
from ..events.session import ConfigChanged, ModeChanged, PromptQueued, PromptWithdrawn, TitleChanged
from ..ids import Seq, SessionId
from ..ports import Permissions
from ..timeline.index import Cell
from ..view import Window
from .parts import SessionParts
from .policy import OptionValues, check_option, known_mode
from .subscription import Subscription
from .tickets import Ticket, TurnEnd

if TYPE_CHECKING:  # of the prompt stage
    from ..cycles import CycleSummary
    from .projector import Projection
    from .turns import Turns

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 32
"""Requests that may wait; a client that sends more is told so."""


class Session:
    """A conversation with its timeline. All methods are for the event loop's thread."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._made_turns: Turns | None = None
        self._permissions: Permissions | None = None
        self._queue: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._steering: list[Ticket] = []
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._closing = False

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> SessionId:
        return self._parts.session_id

    @property
    def cwd(self) -> str:
        """Absolute directory."""
        return self._parts.cwd

    @property
    def events(self) -> Sequence[AnyEvent]:
        """Everything on the log so far; a snapshot."""
        return cast("Sequence[AnyEvent]", self._parts.log.events)

    @property
    def view(self) -> Window:
        """The attention window over the conversation, to read."""
        return self._parts.view.view

    @property
    def cells(self) -> Sequence[Cell]:
        """The statements, oldest first, each with its latest execution."""
        return self._parts.timeline.cells

    @property
    def options(self) -> OptionValues:
        """Mode and options in force."""
        return self._parts.policy.options

    def options_at(self, seq: int) -> OptionValues:
        """Mode and options as they were when the event at `seq` had been taken."""
        return self._parts.policy.options_at(seq)

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        """The request cycle that the RunStop at `seq` ended; None where it ended none."""
        return self._turns.cycles.ended_by(seq)

    async def projection(self) -> Projection:
        """What a model would read now, with its cost in tokens.

        Raises:
            EnvironmentUnavailableError: the worker, which renders and counts, is gone and cannot be replaced.
        """
        return await self._turns.project()

    def subscribe(self) -> Subscription:
        """A new reader of every event and signal that is published from now on; events once they are durable."""
        return self._parts.journal.subscribe()

    async def durable(self, seq: int) -> None:
        """Waits until the event at `seq` is on disk. Raises SessionReadOnlyError where it never will be."""
        await self._parts.journal.durable(Seq(seq))

    # --- what is asked of it ------------------------------------------------------------------------------------------

    def attach(self, permissions: Permissions) -> None:
        """Says whom to ask from now on."""
        self._permissions = permissions
        if self._made_turns is not None:
            self._made_turns.attach(permissions)

    def accept(self, text: str, attachments: Sequence[Attachment] = (), wanted: PromptKind | None = None) -> Ticket:
        """Takes a prompt; at once, so that a cancel read after it finds it.

        Args:
            text: what the user typed.
            attachments: what came with it.
            wanted: what a prompt that comes while a turn is running is to be; None leaves it to the session's option.

        Raises:
            SessionBusyError: the session is closing, or too many prompts wait.
            SessionReadOnlyError: nothing can be recorded any more.
        """
        ticket = Ticket(self._parts.minter.message(), text, tuple(attachments), self._kind())
        return self._take(ticket, wanted)

    async def cell(self, source: str, seconds: float | None = None) -> ExecutionFinished:
        """Runs one statement from outside a turn, in its place in the queue; returns when its record is durable.

        No model is called and no model reads it. Cancelling the waiting task stops it, which is recorded.

        Args:
            source: Python.
            seconds: how long it may run; None leaves it to the settings.

        Raises:
            SessionBusyError, SessionReadOnlyError: as from `accept`.
            StatementWithdrawnError: it was cancelled before it began.
            EnvironmentUnavailableError: there is no worker to run it in.
        """
        ticket = Ticket(self._parts.minter.message(), source, (), self._kind(), cell=True, seconds=seconds)
        self._take(ticket, None)
        try:
            end = await ticket.end()
        except anyio.get_cancelled_exc_class():
            self.cancel(ticket)
            with anyio.CancelScope(shield=True):
                await ticket.end()
            raise
        if end.failure is not None:
            raise end.failure
        if end.execution is None:
            raise StatementWithdrawnError(self.session_id)
        return end.execution

    async def tick(self) -> Sequence[Event]:
        """Lets running handles catch up with their files now; what changed, as events.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
        """
        return await self._turns.tick()

    def set_mode(self, mode: str) -> None:
        """Also while a turn is running; it counts from the next statement on. Raises InvalidRequestError."""
        known = known_mode(mode)
        if known != self.options.mode:
            self._parts.log.append(ModeChanged(mode=known))

    def set_option(self, name: str, value: str) -> None:
        """Sets `mode` or another option of the session. Raises InvalidRequestError."""
        if name == "mode":
            self.set_mode(value)
            return
        check_option(name, value)
        if value != self.options.values[name]:
            self._parts.log.append(ConfigChanged(option=name, value=value))

    def cancel(self, ticket: Ticket | None = None) -> None:
        """Withdraws what waits, then ends what runs; or only what belongs to `ticket`. Does nothing when idle."""
        for waiting in [waiting for waiting in self._queue if ticket in (None, waiting)]:
            self._queue.remove(waiting)
            self._withdraw(waiting)
        if self._running is not None and (ticket in (None, self._running) or ticket in self._steering):
            self._turns.cancel()

    # --- its life -----------------------------------------------------------------------------------------------------

    def start(self, tasks: TaskGroup) -> None:
        """Begins to serve requests."""
        tasks.start_soon(self._serve)

    def begin_close(self) -> None:
        """Takes no request any more and cancels those there are; at once, like `accept`."""
        self._closing = True
        self.cancel()
        self._wake.set()

    async def close(self) -> None:
        """Begins to close, waits until nothing runs any more, and frees what was used. Idempotent."""
        self.begin_close()
        await self._idle.wait()
        if self._made_turns is not None:
            await self._made_turns.close()
        self._parts.journal.close()

    @property
    def _turns(self) -> Turns:
        if self._made_turns is None:
            from .turns import Turns  # of the prompt stage

            self._made_turns = Turns(self._parts)
            self._made_turns.attach(self._permissions)
        return self._made_turns

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _kind(self) -> PromptKind:
        return "follow_up" if self._is_busy else "direct"

    @property
    def _is_busy(self) -> bool:
        return self._running is not None or bool(self._queue)

    def _take(self, ticket: Ticket, wanted: PromptKind | None) -> Ticket:
        if self._closing:
            raise SessionBusyError(f"session {self.session_id} is closed; load it again")
        if len(self._queue) >= MAX_QUEUED:
            raise SessionBusyError(f"{MAX_QUEUED} prompts wait already; cancel, or wait for their turns")
        if self._parts.journal.failure is not None:
            raise self._parts.journal.failure
        if self._is_busy:
            if not ticket.cell and (self._answered_at_once(ticket) or (self._steers(wanted) and self._steer(ticket))):
                return ticket
            self._parts.log.append(PromptQueued(message_id=ticket.message_id, text=ticket.text))
        self._queue.append(ticket)
        self._idle = anyio.Event()
        self._wake.set()
        return ticket

    def _answered_at_once(self, ticket: Ticket) -> bool:
        """Whether it asked for what can be answered while a turn is running; nothing of that is recorded."""
        answered = self._turns.answer_at_once(ticket.text, ticket.message_id)
        if answered:
            ticket.finish(self._end_of("end_turn"))
        return answered

    def _steers(self, wanted: PromptKind | None) -> bool:
        return wanted == "steer" or (wanted is None and self.options.values["while_running"] == "steer")

    def _steer(self, ticket: Ticket) -> bool:
        message = UserMessage(
            message_id=ticket.message_id, text=ticket.text, prompt_kind="steer", attachments=ticket.attachments
        )
        if not self._turns.steer(message):
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
        ticket.finish(self._end_of("cancelled", failure=failure))

    async def _serve(self) -> None:
        while not self._closing:
            while self._queue:
                await self._serve_one(self._queue.popleft())
            self._idle.set()
            self._wake = anyio.Event()
            if not self._closing:
                await self._wake.wait()
        self._idle.set()

    async def _serve_one(self, ticket: Ticket) -> None:
        self._running = ticket
        try:
            end = await self._run(ticket)
        except EngineError as error:
            end = self._end_of("error", failure=error)
        except Exception:
            # A defect of ours must not take the other sessions of this process with it.
            logger.exception("turn %s of session %s failed", ticket.message_id, self.session_id)
            end = self._end_of("error", failure=TurnFailedError(self.session_id))
        self._running = None
        for ended in (ticket, *self._steering):
            ended.finish(end)
        self._steering.clear()

    async def _run(self, ticket: Ticket) -> TurnEnd:
        turns = self._turns
        is_aside = ticket.cell or turns.is_command(ticket.text)
        self._parts.log.append(
            UserMessage(
                message_id=ticket.message_id,
                text=ticket.text,
                prompt_kind=ticket.prompt_kind,
                attachments=ticket.attachments,
                aside=is_aside,
            )
        )
        execution: ExecutionFinished | None = None
        detail: str | None = None
        if ticket.cell:
            execution = await turns.run_cell(ticket.text, ticket.seconds)
            cause: StopCause = "cancelled" if execution.status == "cancelled" else "end_turn"
        elif is_aside:
            cause = await turns.answer(ticket.text)
        else:
            if self._parts.policy.title is None:
                self._begin(turns)
            stop = await turns.run(ticket.attachments)
            cause, detail = stop.cause, stop.detail
        end = self._end_of(cause, detail, execution=execution)
        await self._parts.journal.durable(end.seq)
        return end

    def _begin(self, turns: Turns) -> None:
        """What happens once in a session, at its first prompt: it gets a title, and the user is told what is amiss."""
        cycle = turns.cycles.active
        assert cycle is not None
        self._parts.log.append(TitleChanged(title=cycle.title))
        self._parts.store.retitle(self.session_id, cycle.title)
        if self._parts.note:
            turns.say(self._parts.note + "\n\n")

    def _end_of(
        self,
        cause: StopCause,
        detail: str | None = None,
        *,
        failure: EngineError | None = None,
        execution: ExecutionFinished | None = None,
    ) -> TurnEnd:
        return TurnEnd(cause, detail, Seq(len(self._parts.log) - 1), failure, execution)
