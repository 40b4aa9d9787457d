"""One session: its log with the folds over it, its queue of prompts, and the loop that serves them one at a time.

Owns the order in which prompts become turns and what a cancel withdraws. Must not know any protocol. Created by
`Sessions`, used by the adapters.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup

from ..errors import EngineError, EnvironmentUnavailableError, SessionBusyError, TurnFailedError
from ..events.conversation import AgentText, Attachment, PromptKind, RunStop, StopCause, UserMessage
from ..events.session import ConfigChanged, ModeChanged, PromptQueued, PromptWithdrawn, TitleChanged
from ..ids import Seq, SessionId
from ..ports import Permissions
from .parts import SessionParts
from .policy import checked_mode, checked_option
from .signals import TextStreamed
from .tickets import Ticket, TurnEnd

if TYPE_CHECKING:
    from .commands import Command

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 32
"""Prompts that may wait; a client that sends more is told so."""


class Session:
    """A conversation with its timeline. All methods are for the event loop's thread."""

    def __init__(self, parts: SessionParts) -> None:
        self.parts = parts
        self._queue: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._steering: list[Ticket] = []
        self._answering: anyio.CancelScope | None = None
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._closing = False

    @property
    def session_id(self) -> SessionId:
        return self.parts.session_id

    def attach(self, permissions: Permissions) -> None:
        """Says whom to ask from now on."""
        self.parts.loop().permissions = permissions

    def start(self, tasks: TaskGroup) -> None:
        """Begins to serve prompts."""
        tasks.start_soon(self._serve)

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
        if self._closing:
            raise SessionBusyError(f"session {self.session_id} is closed; load it again")
        if len(self._queue) >= MAX_QUEUED:
            raise SessionBusyError(f"{MAX_QUEUED} prompts wait already; cancel, or wait for their turns")
        if self.parts.journal.failure is not None:
            raise self.parts.journal.failure
        busy = self._running is not None or bool(self._queue)
        ticket = Ticket(self.parts.minter.message(), text, tuple(attachments), "follow_up" if busy else "direct")
        if busy and (self._glance(ticket) or (self._steers(wanted) and self._steer(ticket))):
            return ticket
        if busy:
            self.parts.log.append(PromptQueued(message_id=ticket.message_id, text=text))
        self._queue.append(ticket)
        self._idle = anyio.Event()
        self._wake.set()
        return ticket

    def _glance(self, ticket: Ticket) -> bool:
        """Answers at once what can be answered while a turn is running; nothing of it is recorded."""
        command, argument = _command_in(ticket.text)
        if command is None or command.glance is None:
            return False
        text = command.glance(self.parts, argument)
        self.parts.journal.signal(TextStreamed(ticket.message_id, text), is_whole=True)
        ticket.settle(TurnEnd("end_turn", None, Seq(len(self.parts.log) - 1)))
        return True

    def _steers(self, wanted: PromptKind | None) -> bool:
        return wanted == "steer" or (wanted is None and self.parts.policy.option("while_running") == "steer")

    def _steer(self, ticket: Ticket) -> bool:
        message = UserMessage(
            message_id=ticket.message_id, text=ticket.text, prompt_kind="steer", attachments=ticket.attachments
        )
        if not self.parts.loop().steer(message):
            return False
        self._steering.append(ticket)
        return True

    def set_mode(self, mode: str) -> None:
        """Also while a turn is running; it counts from the next statement on. Raises InvalidRequestError."""
        checked = checked_mode(mode)
        if checked != self.parts.policy.mode:
            self.parts.log.append(ModeChanged(mode=checked))

    def set_option(self, name: str, value: str) -> None:
        """Sets `mode` or another option of the session. Raises InvalidRequestError."""
        if name == "mode":
            self.set_mode(value)
            return
        checked_option(name, value)
        if value != self.parts.policy.option(name):
            self.parts.log.append(ConfigChanged(option=name, value=value))

    def cancel(self, ticket: Ticket | None = None) -> None:
        """Withdraws what waits, then ends what runs; or only what belongs to `ticket`. Does nothing when idle."""
        for waiting in [waiting for waiting in self._queue if ticket in (None, waiting)]:
            self._queue.remove(waiting)
            self._withdraw(waiting)
        if self._running is not None and (ticket in (None, self._running) or ticket in self._steering):
            self.parts.loop().cancel()
            if self._answering is not None:
                self._answering.cancel()

    def begin_close(self) -> None:
        """Takes no prompt any more and cancels those there are; at once, like `accept`."""
        self._closing = True
        self.cancel()
        self._wake.set()

    async def close(self) -> None:
        """Begins to close, waits until nothing runs any more, and frees the worker. Idempotent."""
        self.begin_close()
        await self._idle.wait()
        await self.parts.environment.close()
        self.parts.journal.close()

    def _withdraw(self, ticket: Ticket) -> None:
        failure: EngineError | None = None
        try:
            if ticket.prompt_kind == "follow_up":
                self.parts.log.append(PromptWithdrawn(message_id=ticket.message_id))
        except EngineError as error:
            failure = error
        ticket.settle(self._ended("cancelled", None, failure))

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
            end = await self._turn(ticket)
        except EngineError as error:
            end = self._ended("error", None, error)
        except Exception:
            # A defect of ours must not take the other sessions of this process with it.
            logger.exception("turn %s of session %s failed", ticket.message_id, self.session_id)
            end = self._ended("error", None, TurnFailedError(self.session_id))
        self._running = None
        for settled in (ticket, *self._steering):
            settled.settle(end)
        self._steering.clear()

    def _ended(self, cause: StopCause, detail: str | None, failure: EngineError | None = None) -> TurnEnd:
        return TurnEnd(cause, detail, Seq(len(self.parts.log) - 1), failure)

    async def _turn(self, ticket: Ticket) -> TurnEnd:
        parts = self.parts
        command, argument = _command_in(ticket.text)
        parts.log.append(
            UserMessage(
                message_id=ticket.message_id,
                text=ticket.text,
                prompt_kind=ticket.prompt_kind,
                attachments=ticket.attachments,
                aside=command is not None,
            )
        )
        if command is not None:
            end = self._ended(await self._answer(command, argument), None)
        else:
            if parts.policy.title is None:
                self._begin()
            from .openings import openings  # not needed before the first prompt

            stop = await parts.loop().run(openings(ticket.attachments, parts.timeline.names))
            end = self._ended(stop.cause, stop.detail)
        await parts.journal.durable(end.seq)
        return end

    def _begin(self) -> None:
        """What happens once in a session, at its first prompt: it gets a title, and is told what is amiss."""
        cycle = self.parts.cycles().active
        assert cycle is not None
        title = cycle.title
        self.parts.log.append(TitleChanged(title=title))
        self.parts.store.retitle(self.session_id, title)
        if self.parts.note:
            self._say(self.parts.note + "\n\n")

    async def _answer(self, command: Command, argument: str) -> StopCause:
        text = None
        with anyio.CancelScope() as self._answering:
            try:
                text = await command.run(self.parts, argument)
            except EnvironmentUnavailableError as error:
                text = str(error)
        self._answering = None
        if text is None:
            self.parts.log.append(RunStop(reason="interrupted", cause="cancelled"))
            return "cancelled"
        self._say(text)
        self.parts.log.append(RunStop(reason="completed", cause="end_turn"))
        return "end_turn"

    def _say(self, text: str) -> None:
        message_id = self.parts.minter.message()
        self.parts.journal.signal(TextStreamed(message_id, text), is_whole=True)
        self.parts.log.append(AgentText(message_id=message_id, text=text, aside=True))


def _command_in(text: str) -> tuple[Command | None, str]:
    from .commands import COMMANDS  # not needed before the first prompt

    name, _, argument = text.strip().partition(" ")
    return (COMMANDS.get(name[1:]) if name.startswith("/") else None), argument.strip()
