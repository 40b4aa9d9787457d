"""An open session as the editor sees it: the engine's session, the pump that shows it, its unanswered prompts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from acp_adapter.rpc.peer import Peer
from acp_adapter.wire.model import to_wire
from engine.errors import SessionReadOnlyError
from engine.events import UNSTAMPED
from engine.events.conversation import Attachment, PromptKind
from engine.ids import Seq
from engine.sessions.session import Session
from engine.sessions.tickets import Ticket, TurnEnd

if TYPE_CHECKING:
    from acp_adapter.pump import Pump


class Conversation:
    """Binds a session to the connection that opened it.

    What shows it is loaded when it starts to be shown, because an editor waits for the answer to session/new.
    """

    def __init__(self, session: Session, peer: Peer[Any]) -> None:
        self.session = session
        self._peer = peer
        self._subscription = session.subscribe()
        self._history = session.events
        self._pump: Pump | None = None
        self._started = anyio.Event()
        self._is_shown = False
        self._unanswered: set[Ticket] = set()
        self.closed: anyio.Event | None = None
        """Set when it is closed; there as soon as somebody closes it."""
        self._answered = anyio.Event()

    async def start(self, tasks: TaskGroup) -> None:
        """Begins to show what happens in the session; only after the response that names it. Not to be repeated."""
        from acp_adapter.updates import available_commands

        pump = self._prepare()
        tasks.start_soon(pump.run)
        self._is_shown = True
        self._started.set()
        await self.send(to_wire(available_commands()))

    def _prepare(self) -> Pump:
        from acp_adapter.client_ports import EditorPermissions
        from acp_adapter.pump import Pump
        from acp_adapter.updates import Updates

        if self._pump is None:
            updates = Updates(self.session.cwd)
            updates.skip(self._history)
            self._pump = Pump(self._subscription, updates, self.send)
            self.session.attach(EditorPermissions(self.session.session_id, self._peer, self._shown))
        return self._pump

    async def _shown(self, seq: Seq) -> None:
        await self._started.wait()
        if self._is_shown:
            assert self._pump is not None
            await self._pump.sent(seq)

    @property
    def is_shown(self) -> bool:
        """Whether `start` was called."""
        return self._is_shown

    def give_up(self) -> None:
        """Has nobody wait for `start`, which may not come: the request that opened this failed, or the client left."""
        self._started.set()

    async def send(self, update: dict[str, Any]) -> None:
        """Sends one update of this session."""
        await self._peer.notify("session/update", {"sessionId": self.session.session_id, "update": update})

    async def replay(self) -> None:
        """Shows again everything that was shown, once each, whatever happens meanwhile."""
        from acp_adapter.updates import Updates

        await self._prepare().replay(self.session, Updates(self.session.cwd))

    def accept(self, text: str, attachments: Sequence[Attachment], wanted: PromptKind | None) -> Ticket:
        """Takes a prompt the moment its line is read."""
        ticket = self.session.accept(text, attachments, wanted)
        self._unanswered.add(ticket)
        return ticket

    async def ended(self, ticket: Ticket) -> TurnEnd:
        """Waits until the prompt's turn is over and everything that belongs to it was sent.

        A client that gives up waiting cancels this prompt; it still ends in an orderly way, as cancelled.

        Raises:
            EngineError: the turn could not be carried out or recorded.
        """
        end = TurnEnd("cancelled", None, UNSTAMPED)
        try:
            end = await self._end(ticket)
        except anyio.get_cancelled_exc_class():
            self.session.cancel(ticket)
            with anyio.CancelScope(shield=True):
                end = await self._end(ticket)
        finally:
            self._unanswered.discard(ticket)
            answered, self._answered = self._answered, anyio.Event()
            answered.set()
        if end.failure is not None:
            raise end.failure
        return end

    async def _end(self, ticket: Ticket) -> TurnEnd:
        end = await ticket.end()
        # A session that has become read-only will never publish what it could not commit.
        with suppress(SessionReadOnlyError):
            await self.session.durable(end.seq)
            await self._shown(end.seq)
            if self._is_shown:
                assert self._pump is not None
                await self._pump.caught_up()
        return end

    async def settled(self) -> None:
        """Waits until every prompt has been answered."""
        while self._unanswered:
            await self._answered.wait()
