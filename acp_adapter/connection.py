"""The agent's side of one ACP connection: puts peer, methods, sessions and pumps together and serves until the end.

Owns the connection's state. The engine is loaded while the client reads the answer to `initialize`, because that answer
is what an editor waits for when it starts us.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskGroup

from acp_adapter.errors import Code, ProtocolError, to_error
from acp_adapter.handlers import METHODS
from acp_adapter.rpc.peer import Peer
from acp_adapter.rpc.stdio import StdioTransport
from engine.ids import SessionId

if TYPE_CHECKING:
    from acp_adapter.conversation import Conversation
    from acp_adapter.rpc.methods import Context
    from acp_adapter.wire.v1.shapes.initialize import ClientCapabilities
    from engine.host import Host
    from engine.sessions.registry import Sessions
    from engine.sessions.session import Session

DRAIN_SECONDS: Final = 5.0
"""How long answers may take after the client closed its end; a statement that ignores SIGINT needs its grace."""


class Connection:
    """What is known about one client, and what it has open."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks: TaskGroup | None = None
        self._peer: Peer[Connection] | None = None
        self.client: ClientCapabilities | None = None
        self._conversations: dict[str, Conversation] = {}
        self._changing = anyio.Lock()

    # --- used by handlers ---------------------------------------------------------------------------------------------

    def require_initialized(self) -> None:
        """Raises ProtocolError (invalid request) before `initialize`."""
        if self.client is None:
            raise ProtocolError(Code.INVALID_REQUEST, "call initialize first")

    def initialized(self, client: ClientCapabilities) -> None:
        """Notes the client's capabilities. May be repeated until a session is open.

        Raises:
            ProtocolError: invalid request, afterwards.
        """
        if self._conversations:
            raise ProtocolError(Code.INVALID_REQUEST, "initialize cannot be repeated while a session is open")
        self.client = client

    @property
    def sessions(self) -> Sessions:
        """The engine's sessions; loads the engine at first."""
        return self._host.sessions

    async def load_engine(self) -> None:
        """Loads what the first session needs, before it is asked for."""
        import_module("acp_adapter.conversation")
        self._host.prepare("session")

    async def end_start_up(self) -> None:
        """Loads what the first prompt needs, while the editor shows the session."""
        self._host.prepare("prompt")
        for name in METHODS:
            _ = METHODS[name]
        gc.freeze()
        gc.enable()

    async def adopt(self, opening: Awaitable[Session], context: Context[Connection, Any]) -> Conversation:
        """Registers a session once it is open: prompts may come. It is shown when the response of `context` is out.

        Clients drop or choke on updates for a session whose id they have not been told. What opens a session is not
        cancelled half-way, because the store would go on holding one that nobody has.
        """
        from acp_adapter.conversation import Conversation

        assert self._peer is not None
        assert self._tasks is not None
        session: Session | None = None
        with anyio.CancelScope(shield=True):
            session = await opening
        assert session is not None
        conversation = Conversation(session, self._peer)
        self._conversations[session.session_id] = conversation
        tasks = self._tasks

        context.after_response(lambda: conversation.start(tasks))
        context.after_response(self.end_start_up)
        return conversation

    async def reopen(self, session_id: str, context: Context[Connection, Any], *, is_replayed: bool) -> Conversation:
        """The conversation of a session of the store, which may be open on this connection already.

        `is_replayed`: what was shown of it is shown again first. If that fails or is cancelled, a session that was not
        open before is not open afterwards.

        Raises:
            SessionNotFoundError, SessionInUseError.
        """
        # One at a time, so that a second request for the same session finds what the first has opened.
        async with self._changing:
            conversation = self.find(session_id)
            if conversation is not None and conversation.closed is not None:
                await conversation.closed.wait()
                conversation = None
            if conversation is None:
                conversation = await self.adopt(self.sessions.load(SessionId(session_id)), context)
            if is_replayed:
                await self._replay(conversation)
            return conversation

    async def delete(self, session_id: str) -> None:
        """Closes a session where it is open on this connection, and removes it from the store.

        Raises:
            SessionInUseError: another process has it.
        """
        # One at a time, because the store would tell a second request that the session is in use by the first.
        async with self._changing:
            conversation = self.find(session_id)
            if conversation is not None:
                await self.close(conversation)
            await self.sessions.delete(SessionId(session_id))

    async def _replay(self, conversation: Conversation) -> None:
        try:
            await conversation.replay()
        except BaseException:
            if not conversation.is_shown:
                # The client is told that it is not open, so prompts that came meanwhile are not shown either.
                conversation.give_up()
                await self.close(conversation)
            raise

    def conversation(self, session_id: str) -> Conversation:
        """The open conversation of this id.

        Raises:
            ProtocolError: resource not found.
        """
        conversation = self._conversations.get(session_id)
        if conversation is None:
            raise ProtocolError(
                Code.RESOURCE_NOT_FOUND, "no such session is open on this connection", {"sessionId": session_id}
            )
        return conversation

    def find(self, session_id: str) -> Conversation | None:
        """The open conversation of this id, if there is one."""
        return self._conversations.get(session_id)

    async def close(self, conversation: Conversation) -> None:
        """Cancels what runs, waits until its prompts are answered, and frees the session. May be called twice."""
        if conversation.closed is not None:
            await conversation.closed.wait()
            return
        conversation.closed = anyio.Event()
        session_id = conversation.session.session_id
        conversation.session.begin_close()
        try:
            # A client that gives up waiting must not leave a session that can neither be used nor opened again.
            with anyio.CancelScope(shield=True):
                await conversation.settled()
                await self.sessions.close(session_id)
        finally:
            self._conversations.pop(session_id, None)
            conversation.closed.set()

    # --- the whole life -----------------------------------------------------------------------------------------------

    async def serve(self, transport: StdioTransport) -> None:
        """Serves the client until it is gone, then closes what it had open."""
        async with anyio.create_task_group() as self._tasks:
            self._peer = Peer(
                transport, METHODS, self, to_error=to_error, on_eof=self._client_gone, grace=DRAIN_SECONDS
            )
            await self._peer.run()
            self._tasks.cancel_scope.cancel()

    async def _client_gone(self) -> None:
        for conversation in self._conversations.values():
            conversation.session.cancel()
            conversation.give_up()


async def serve(read_fd: int, write_fd: int, host: Host) -> None:
    """Serves one client on two descriptors until it leaves."""
    host.prepare("answering")
    transport = StdioTransport(read_fd, write_fd)
    try:
        async with host:
            await Connection(host).serve(transport)
    finally:
        transport.close()
