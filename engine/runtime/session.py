"""One session: its log with the folds over it, its queue of prompts, and the loop that serves them one at a time.

Owns the order in which prompts become turns and what a cancel withdraws. Must not know any protocol. Created by
`Sessions`, used by the adapters.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from ..errors import EngineError, EnvironmentUnavailableError, InvalidRequestError, TurnFailedError
from ..events import (
    AgentText,
    Attachment,
    ConfigChanged,
    ModeChanged,
    PromptQueued,
    PromptWithdrawn,
    RunStop,
    TitleChanged,
    UserMessage,
)
from ..events.conversation import PromptKind, StopCause
from ..events.execution import TITLE_CHARS
from ..ids import MessageId, Minter, Seq, SessionId
from ..log import EventLog
from ..ports import Permissions, Store
from ..timeline.index import Timeline
from .agent_loop import AgentLoop
from .commands import COMMANDS, Command
from .journal import Journal, TextStreamed
from .live_environment import LiveEnvironment
from .openings import openings
from .policy import Policy, checked_mode, checked_option
from .projector import Projector

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 32
"""Prompts that may wait; a client that sends more is told so."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a prompt ended. `detail` explains cause `error`; `seq` is the last event that belongs to it."""

    cause: StopCause
    detail: str | None
    seq: Seq


@dataclass(slots=True, eq=False)
class Ticket:
    """A prompt that was accepted, from the moment its line was read until its turn has ended."""

    message_id: MessageId
    text: str
    attachments: tuple[Attachment, ...]
    prompt_kind: PromptKind
    _ended: anyio.Event = field(default_factory=anyio.Event)
    _end: TurnEnd | EngineError | None = None

    def settle(self, end: TurnEnd | EngineError) -> None:
        """Says how it ended; the first word counts."""
        if self._end is None:
            self._end = end
            self._ended.set()

    @property
    def settled(self) -> bool:
        return self._end is not None

    async def end(self) -> TurnEnd:
        """Waits for the end.

        Raises:
            EngineError: the turn could not be recorded (the session is read-only).
        """
        await self._ended.wait()
        if isinstance(self._end, EngineError):
            raise self._end
        assert self._end is not None
        return self._end


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    """What a session is made of; put together by `Sessions`."""

    session_id: SessionId
    cwd: str
    store: Store
    log: EventLog
    journal: Journal
    timeline: Timeline
    policy: Policy
    environment: LiveEnvironment
    projector: Projector
    loop: AgentLoop
    minter: Minter
    note: str | None = None


class Session:
    """A conversation with its timeline. All methods are for the event loop's thread."""

    def __init__(self, parts: SessionParts) -> None:
        self.parts = parts
        self._queue: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._steering: list[Ticket] = []
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._closing = False

    @property
    def session_id(self) -> SessionId:
        return self.parts.session_id

    def attach(self, permissions: Permissions) -> None:
        """Says whom to ask from now on."""
        self.parts.loop.permissions = permissions

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
            InvalidRequestError: the session is closing, or too many prompts wait.
            SessionReadOnlyError: nothing can be recorded any more.
        """
        if self._closing:
            raise InvalidRequestError(f"session {self.session_id} is closed; load it again")
        if len(self._queue) >= MAX_QUEUED:
            raise InvalidRequestError(f"{MAX_QUEUED} prompts wait already; cancel, or wait for their turns")
        if self.parts.journal.failure is not None:
            raise self.parts.journal.failure
        busy = self._running is not None or bool(self._queue)
        ticket = Ticket(self.parts.minter.message(), text, tuple(attachments), "follow_up" if busy else "direct")
        steer = wanted == "steer" or (wanted is None and self.parts.policy.option("while_running") == "steer")
        if busy and steer and self._steer(ticket):
            return ticket
        if busy:
            self.parts.log.append(PromptQueued(message_id=ticket.message_id, text=text))
        self._queue.append(ticket)
        self._idle = anyio.Event()
        self._wake.set()
        return ticket

    def _steer(self, ticket: Ticket) -> bool:
        message = UserMessage(
            message_id=ticket.message_id, text=ticket.text, prompt_kind="steer", attachments=ticket.attachments
        )
        if not self.parts.loop.steer(message):
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

    def cancel(self) -> None:
        """Withdraws what waits, then ends what runs. Does nothing when the session is idle."""
        for ticket in self._queue:
            self._withdraw(ticket)
        self._queue.clear()
        if self._running is not None:
            self.parts.loop.cancel()

    async def close(self) -> None:
        """Cancels, waits until nothing runs any more, and frees the worker. Idempotent."""
        self._closing = True
        self.cancel()
        self._wake.set()
        await self._idle.wait()
        await self.parts.environment.close()
        self.parts.journal.close()

    def _withdraw(self, ticket: Ticket) -> None:
        try:
            if ticket.prompt_kind == "follow_up":
                self.parts.log.append(PromptWithdrawn(message_id=ticket.message_id))
            ticket.settle(TurnEnd("cancelled", None, Seq(len(self.parts.log) - 1)))
        except EngineError as error:
            ticket.settle(error)

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
        end: TurnEnd | EngineError
        try:
            end = await self._turn(ticket)
        except EngineError as error:
            end = error
        except Exception:
            # A defect of ours must not take the other sessions of this process with it.
            logger.exception("turn %s of session %s failed", ticket.message_id, self.session_id)
            end = TurnFailedError(self.session_id)
            self._stop_run()
        self._running = None
        for settled in (ticket, *self._steering):
            settled.settle(end)
        self._steering.clear()

    async def _turn(self, ticket: Ticket) -> TurnEnd:
        log = self.parts.log
        log.append(
            UserMessage(
                message_id=ticket.message_id,
                text=ticket.text,
                prompt_kind=ticket.prompt_kind,
                attachments=ticket.attachments,
            )
        )
        command, argument = _command_in(ticket.text)
        if command is None and self.parts.policy.title is None:
            self._name_after(ticket.text)
        if command is not None:
            await self._answer(command, argument)
            cause: StopCause = "end_turn"
            detail = None
        else:
            stop = await self.parts.loop.run(openings(ticket.attachments))
            cause, detail = stop.cause, stop.detail
        end = TurnEnd(cause, detail, Seq(len(log) - 1))
        await self.parts.journal.durable(end.seq)
        return end

    def _name_after(self, text: str) -> None:
        title = next((line.strip() for line in text.splitlines() if line.strip()), "")[:TITLE_CHARS]
        if title:
            self.parts.log.append(TitleChanged(title=title))
            self.parts.store.retitle(self.session_id, title)

    def _stop_run(self) -> None:
        try:
            self.parts.log.append(RunStop(reason="error", cause="error", detail="internal error"))
        except EngineError:
            logger.warning("session %s: the failed turn could not be recorded", self.session_id)

    async def _answer(self, command: Command, argument: str) -> None:
        try:
            text = await command.run(self.parts, argument)
        except EnvironmentUnavailableError as error:
            text = str(error)
        message_id = self.parts.minter.message()
        self.parts.journal.signal(TextStreamed(message_id, text))
        self.parts.log.append(AgentText(message_id=message_id, text=text))
        self.parts.log.append(RunStop(reason="completed", cause="end_turn"))


def _command_in(text: str) -> tuple[Command | None, str]:
    name, _, argument = text.strip().partition(" ")
    return (COMMANDS.get(name[1:]) if name.startswith("/") else None), argument.strip()
