"""The queue of a session's requests, and the task that serves them one at a time.

Owns the order of requests, what a cancel withdraws, and that each request ends, whatever happens. Must not know how a
request is served: that is `serving`, which is loaded with the first request. Owned by `Session`.

Prompts and statements wait in one queue, because both need the one namespace. `take` registers a request before any
await, so a cancel that is read after it finds it. A running request is told to end, and the queue waits until it has
ended. So every ticket ends, and its end names the last event that its caller must see. Two kinds of prompt never wait:
a command that only looks is answered at once, and a steer joins the running turn and ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import anyio.to_thread
from anyio.abc import TaskGroup

from ..core.errors import EngineError, SessionBusyError, TurnFailedError
from ..files.sources import Editor
from ..log.events.conversation import PromptKind
from ..log.events.session import PromptQueued, PromptWithdrawn
from ..log.forms import Forms
from ..log.permissions import Permissions
from .askers import Asker, Askers
from .journal import CommandRow
from .parts import SessionParts
from .requests import Ticket, TurnEnd, turn_end

if TYPE_CHECKING:  # of the prompt stage
    from .commands import Reading
    from .commands.custom import CustomCommands
    from .serving import RequestServer
    from .session_runtime import SessionRuntime

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 32
"""Requests that may wait. Further ones are refused."""


class RequestQueue:
    """First in, first out. The server is made when it is first needed."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._server: RequestServer | None = None
        self._commands: CustomCommands | None = None
        self._is_listed = False
        self._tasks: TaskGroup | None = None
        self._askers = Askers()
        self._editor: Editor | None = None
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
        """The server of the requests."""
        if self._server is None:
            from .serving import RequestServer  # of the prompt stage

            self._server = RequestServer(self._parts, self._waiting, self.commands)
            self._pass_on()
            self.connect()
            if self._tasks is not None:
                self._tasks.start_soon(self._server.runtime.prepare)
        return self._server

    @property
    def commands(self) -> CustomCommands:
        """The slash commands of files and servers."""
        if self._commands is None:
            from .commands.custom import CustomCommands  # of the prompt stage

            self._commands = CustomCommands(self._parts)
        return self._commands

    @property
    def custom_commands(self) -> Sequence[CommandRow]:
        """Their rows; none before they are listed."""
        return () if self._commands is None else self._commands.rows

    @property
    def runtime(self) -> SessionRuntime | None:
        """The session's runtime; None before the first request."""
        return None if self._server is None else self._server.runtime

    def attach(self, permissions: Permissions | None, editor: Editor | None, forms: Forms | None) -> None:
        """Set whom questions go to, whose unsaved texts replace the disk's, and who is asked for answers."""
        self._editor = editor
        self._askers.attach(permissions, forms)
        self._pass_on()

    def ask_also(self, asker: Asker) -> Callable[[], None]:
        """Ask this one each question, too; return what ends that."""
        self._askers.join(asker)
        self._pass_on()

        def leave() -> None:
            self._askers.leave(asker)
            self._pass_on()

        return leave

    def _pass_on(self) -> None:
        if self._server is not None:
            self._server.runtime.attach(self._askers.permissions, self._editor, self._askers.forms)

    def start(self, tasks: TaskGroup) -> None:
        """Start serving requests."""
        self._tasks = tasks
        tasks.start_soon(self.serve)

    def connect(self) -> None:
        """Start connecting the MCP servers, and listing slash commands, in the background.

        The first request does it at the latest.
        """
        if self._tasks is None:
            return
        if self._parts.servers is not None:
            self._parts.servers.connect(self._tasks)
        if not self._is_listed:
            self._is_listed = True
            self._tasks.start_soon(self.commands.refresh)

    @property
    def is_busy(self) -> bool:
        """Whether a new request would have to wait."""
        return self._running is not None or bool(self._waiting)

    def take(self, ticket: Ticket, wanted: PromptKind | None) -> None:
        """Queue a request, or answer it at once, or let it steer the running turn.

        Raises:
            SessionBusyError: the session is closing, or too many requests wait.
            SessionReadOnlyError: nothing more can be recorded.
        """
        # First, because a session that cannot record may be closed for that, and another one replaces it.
        if self._parts.journal.failure is not None:
            raise self._parts.journal.failure
        if self._closing:
            raise SessionBusyError(f"session {self._parts.session_id} is closed; load it again")
        if len(self._waiting) >= MAX_QUEUED:
            raise SessionBusyError(f"{MAX_QUEUED} prompts are waiting already; cancel them, or wait")
        if self.is_busy:
            if not ticket.cell and (self._answered_at_once(ticket) or (self._steers(wanted) and self._steer(ticket))):
                return
            self._parts.log.append(PromptQueued(message_id=ticket.message_id, text=ticket.text))
        self._waiting.append(ticket)
        self._idle.clear()
        self._wake.set()

    def cancel(self, ticket: Ticket | None) -> None:
        """Withdraw the waiting requests, then end the running one. With a `ticket`, only that request.

        A ticket that steers ends the running request. Does nothing when idle.
        """
        for waiting in [waiting for waiting in self._waiting if ticket in (None, waiting)]:
            self._waiting.remove(waiting)
            self._withdraw(waiting)
        if self._running is not None and (ticket in (None, self._running) or ticket in self._steering):
            self.server.cancel()

    def begin_close(self) -> None:
        """Refuse further requests and cancel all others."""
        self._closing = True
        self.cancel(None)
        self._wake.set()

    async def idle(self) -> None:
        """Wait until nothing runs and nothing waits."""
        await self._idle.wait()

    async def serve(self) -> None:
        """Serve requests until `begin_close`. If this is cancelled, all requests end as cancelled."""
        try:
            while not self._closing:
                while self._waiting:
                    await self._serve_one(self._waiting.popleft())
                self._idle.set()
                # The caller of the last request goes on first, perhaps with its next request.
                await asyncio.sleep(0)
                if not self._waiting and not self._closing:
                    await self._wait_for_request()
        finally:
            self.begin_close()
            self._idle.set()

    async def _wait_for_request(self) -> None:
        """Wait for the next request, doing idle work in the meantime."""
        self._wake.clear()
        seconds = self.server.runtime.idle_delay if self._has_served else None
        while seconds is not None and not await self._is_woken(seconds):
            seconds = await self._run_idle_work()
        await self._wake.wait()

    async def _is_woken(self, seconds: float) -> bool:
        """Return whether a request, or the close, comes within so many seconds."""
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
            # The log takes no more events. The next caller is told.
            return None
        except Exception:
            logger.exception("idle work of session %s failed", self._parts.session_id)
            return None

    async def _serve_one(self, ticket: Ticket) -> None:
        self._running = ticket
        try:
            server = self.server
            self._has_served = True
            end = await server.serve(ticket)
        except EngineError as error:
            end = turn_end(self._parts.log, "error", failure=error)
        except Exception:
            # A defect of ours must not end the other sessions of this process.
            logger.exception("turn %s of session %s failed", ticket.message_id, self._parts.session_id)
            end = turn_end(self._parts.log, "error", failure=TurnFailedError(self._parts.session_id))
        except asyncio.CancelledError:
            self._finish(ticket, turn_end(self._parts.log, "cancelled"))
            raise
        self._finish(ticket, end)

    def _finish(self, ticket: Ticket, end: TurnEnd) -> None:
        self._running = None
        for ended in (ticket, *self._steering):
            ended.finish(end)
        self._steering.clear()

    def _answered_at_once(self, ticket: Ticket) -> bool:
        """Answer it now if that is possible while a turn runs. Nothing is recorded."""
        answer = self.server.glance(ticket.text) if ticket.request is None and self._tasks is not None else None
        if answer is None or self._tasks is None:
            return False
        if isinstance(answer, str):
            self.server.show_answer(ticket.message_id, answer)
            ticket.finish(turn_end(self._parts.log, "end_turn"))
        else:
            self._tasks.start_soon(self._show_when_read, ticket, answer)
        return True

    async def _show_when_read(self, ticket: Ticket, reading: Reading) -> None:
        failure: EngineError | None = None
        try:
            self.server.show_answer(ticket.message_id, await anyio.to_thread.run_sync(reading, abandon_on_cancel=True))
        except EngineError as error:
            failure = error
        except Exception:  # as in `_serve_one`
            logger.exception("request %s of session %s failed", ticket.message_id, self._parts.session_id)
            failure = TurnFailedError(self._parts.session_id)
        finally:
            ticket.finish(turn_end(self._parts.log, "error" if failure else "end_turn", failure=failure))

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
        ticket.finish(turn_end(self._parts.log, "cancelled", failure=failure))
