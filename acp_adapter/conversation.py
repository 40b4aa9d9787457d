"""An open session as the editor sees it: the engine's session, the pump that shows it, its unanswered prompts.

Must not know the protocol's shapes, which are the codec's, nor other sessions, which are the connection's.

What waits for what. A client must not get an update for a session whose id it has not been told, and whatever happens
after a session is open must be shown to it. So the subscription begins at once, when the session is opened, and the
pump begins to send when the response that names the session is out (`start`). In between, which is long where a load
shows the whole history, prompts may come already, because a client that loads knows the id: they run, and what they
publish waits in the subscription. A prompt is answered when its turn has ended, its last event is durable, and the pump
has sent everything up to it; a question for permission is asked when everything before it was sent. Both therefore wait
for `start`. If it will not come, because the request failed or the client left, `give_up` ends these waits.

Whether anything is shown is the state of the pump (waiting, sending, over). Whether the session can be used is the
state here: open, closing from when somebody asks for it, closed when its prompts are answered and it is free to be
opened again. The two are independent: a session may be closed while the response that opens it is on its way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum, auto

import anyio
from anyio.abc import TaskGroup

from acp_adapter.editor_files import EditorFiles
from acp_adapter.permissions import EditorPermissions
from acp_adapter.pump import Pump
from acp_adapter.rpc.methods import Remote
from acp_adapter.wire.codec import Codec, Json
from engine import Session, Ticket, TurnEnd
from engine.core.errors import SessionReadOnlyError
from engine.log.events import UNSTAMPED
from engine.log.events.conversation import Attachment, PromptKind
from engine.log.events.going_back import HeadMoved, Rewound


class State(Enum):
    """Whether a session can be used; it only ever moves on."""

    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


class Conversation:
    """Binds a session to the connection that opened it."""

    def __init__(self, session: Session, peer: Remote, codec: Codec, files: EditorFiles) -> None:
        self.session = session
        self._files = files
        self._peer = peer
        self._codec = codec
        self._state = State.OPEN
        self._unanswered: set[Ticket] = set()
        self._changed = anyio.Event()
        self._pump = Pump(session.subscribe(), codec, session, self._send)
        session.attach(EditorPermissions(session.session_id, session, peer, codec, self._pump.sent), files)

    # --- what is shown ------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Begins to show what happens in the session; only after the response that names it. Not to be repeated."""
        if self._state is State.CLOSED:
            return
        tasks.start_soon(self._pump.run)
        await self._send(self._codec.updates.commands_update())

    async def connect(self) -> None:
        """Begins to connect the session's MCP servers, and waits for none."""
        self.session.connect()

    def give_up(self) -> None:
        """Has nobody wait for `start`, which may not come: the request that opened this failed, or the client left."""
        self._pump.give_up()

    async def replay(self) -> None:
        """Shows again everything that was shown, once each, whatever happens meanwhile."""
        await self._pump.replay(self.session.events)

    async def show_finished(self) -> None:
        """Shows what the opening has finished of a rewind that was cut off, where nothing else is shown again."""
        finished = [event for event in self.session.settled if isinstance(event, Rewound | HeadMoved)]
        if any(isinstance(event, Rewound) for event in finished):
            await self._pump.show(finished)

    async def _send(self, update: Json) -> None:
        await self._peer.notify("session/update", {"sessionId": self.session.session_id, "update": update})

    # --- prompts ------------------------------------------------------------------------------------------------------

    def accept(self, said: Sequence[str | Attachment], wanted: PromptKind | None) -> Ticket:
        """Takes a prompt the moment its line is read. Raises SessionBusyError, SessionReadOnlyError."""
        ticket = self.session.accept(said, wanted)
        self._files.user_acted()
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
            self._notify()
        if end.failure is not None:
            raise end.failure
        return end

    async def _end(self, ticket: Ticket) -> TurnEnd:
        end = await ticket.end()
        # A session that has become read-only will never publish what it could not commit.
        with suppress(SessionReadOnlyError):
            await self.session.durable(end.seq)
            await self._pump.sent(end.seq)
            await self._pump.caught_up()
        return end

    # --- the end ------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether nobody has begun to close it."""
        return self._state is State.OPEN

    async def close(self, release: Callable[[], Awaitable[None]]) -> None:
        """Cancels what runs, waits until its prompts are answered, and has `release` free the session.

        May be called twice; both return when it is closed.
        """
        if self._state is not State.OPEN:
            await self.closed()
            return
        self._move(State.CLOSING)
        self.session.begin_close()
        try:
            # A client that gives up waiting must not leave a session that can neither be used nor opened again.
            with anyio.CancelScope(shield=True):
                await self._until(lambda: not self._unanswered)
                await release()
        finally:
            self._files.close()
            self._move(State.CLOSED)

    async def closed(self) -> None:
        """Waits until it is closed."""
        await self._until(lambda: self._state is State.CLOSED)

    def _move(self, state: State) -> None:
        self._state = state
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()
