"""An open session as the editor sees it: the engine's session, the pump that shows it, its unanswered prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup

from acp_adapter.client_ports import EditorPermissions
from acp_adapter.pump import Pump
from acp_adapter.rpc.peer import Peer
from acp_adapter.updates import Updates
from acp_adapter.wire.model import to_wire
from acp_adapter.wire.v1.client import RequestPermissionRequest, RequestPermissionResponse
from acp_adapter.wire.v1.updates import AvailableCommand, AvailableCommandsUpdate, CommandInput
from engine.events import UNSTAMPED, Attachment
from engine.events.conversation import PromptKind
from engine.runtime.commands import COMMANDS
from engine.runtime.session import Session, Ticket, TurnEnd


class Conversation:
    """Binds a session to the connection that opened it."""

    def __init__(self, session: Session, peer: Peer[Any]) -> None:
        self.session = session
        self._peer = peer
        self._updates = Updates(session.parts.cwd)
        self._updates.skip(session.parts.log.events)
        self._pump = Pump(session.parts.journal.subscribe(), self._updates, self.send)
        self._unanswered: set[Ticket] = set()
        self._answered = anyio.Event()
        session.attach(EditorPermissions(session.session_id, self._ask, self._pump.sent))

    def start(self, tasks: TaskGroup) -> None:
        """Begins to show what happens in the session."""
        tasks.start_soon(self._pump.run)

    async def send(self, update: dict[str, Any]) -> None:
        """Sends one update of this session."""
        await self._peer.notify("session/update", {"sessionId": self.session.session_id, "update": update})

    async def announce(self) -> None:
        """Tells the editor which slash commands there are; only after the response that names the session."""
        await self.send(to_wire(AvailableCommandsUpdate(available_commands=available_commands())))

    async def replay(self) -> None:
        """Shows again everything that was shown, from the log."""
        updates = Updates(self.session.parts.cwd)
        for event in self.session.parts.log.events:
            for update in updates.replayed(event):
                await self.send(to_wire(update))

    async def _ask(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        return await self._peer.request("session/request_permission", request, RequestPermissionResponse)

    def accept(self, text: str, attachments: Sequence[Attachment], wanted: PromptKind | None) -> Ticket:
        """Takes a prompt the moment its line is read."""
        ticket = self.session.accept(text, attachments, wanted)
        self._unanswered.add(ticket)
        return ticket

    async def ended(self, ticket: Ticket) -> TurnEnd:
        """Waits until the prompt's turn is over and everything that belongs to it was sent.

        A client that gives up waiting cancels the turn; it still ends in an orderly way, as cancelled.
        """
        end = TurnEnd("cancelled", None, UNSTAMPED)
        try:
            end = await self._end(ticket)
        except anyio.get_cancelled_exc_class():
            self.session.cancel()
            with anyio.CancelScope(shield=True):
                end = await self._end(ticket)
        finally:
            self._unanswered.discard(ticket)
            self._answered.set()
        return end

    async def _end(self, ticket: Ticket) -> TurnEnd:
        end = await ticket.end()
        await self._pump.sent(end.seq)
        return end

    async def settled(self) -> None:
        """Waits until every prompt has been answered."""
        while self._unanswered:
            self._answered = anyio.Event()
            await self._answered.wait()


def available_commands() -> list[AvailableCommand]:
    """The engine's slash commands in the wire's shape."""
    return [
        AvailableCommand(name=command.name, description=command.description, input=CommandInput(hint=command.hint))
        if command.hint
        else AvailableCommand(name=command.name, description=command.description)
        for command in COMMANDS.values()
    ]
