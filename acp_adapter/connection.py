"""What is known about one client, and what it has open: the state behind the handlers.

Owns the conversations of a connection, and the version of the protocol that it speaks. Must not know how messages
travel, nor any method. Made by `serving`; handlers reach it through their context.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskGroup

from acp_adapter import stages
from acp_adapter.documents import Documents
from acp_adapter.errors import RESOURCE_NOT_FOUND
from acp_adapter.rpc.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.negotiation import Negotiation
from engine import Host, SessionId

if TYPE_CHECKING:  # of the session stage
    from acp_adapter.conversation import Conversation
    from acp_adapter.requests import Initialize, OpenSession
    from engine import ModelSetup, Session, Sessions


class Connection:
    """One client's state. Its sessions are served by `tasks`; `when_ready` is called once, after the last stage."""

    def __init__(self, host: Host, tasks: TaskGroup, when_ready: Callable[[], None]) -> None:
        self.codec = Negotiation()
        self._host = host
        self._tasks = tasks
        self._when_ready = when_ready
        self._is_initialized = False
        self._prepared: set[stages.Stage] = set()
        self._conversations: dict[str, Conversation] = {}
        self.documents: Final = Documents()
        """What the client says of what it has open; the same for all sessions."""
        self._reads_files = self._writes_files = False
        self._changing = anyio.Lock()

    # --- the handshake, and what is loaded when -----------------------------------------------------------------------

    def admit(self, method: Method[Any, Any, Any]) -> None:
        """Raises ProtocolError (invalid request) for a method that has to wait for `initialize`."""
        if method.needs_initialization and not self._is_initialized:
            raise ProtocolError(Code.INVALID_REQUEST, "call initialize first")

    def initialize(self, introduced: Initialize) -> None:
        """Notes that the client has introduced itself, and what it speaks. May be repeated until a session is open.

        Raises:
            ProtocolError: invalid request, afterwards.
        """
        if self._conversations:
            raise ProtocolError(Code.INVALID_REQUEST, "initialize cannot be repeated while a session is open")
        self._is_initialized = True
        self.codec.choose(introduced.version, terminals=introduced.terminals)
        self._reads_files, self._writes_files = introduced.reads_files, introduced.writes_files

    async def prepare(self, stage: stages.Stage) -> None:
        """Loads what a later stage needs, ahead of need, once."""
        if stage in self._prepared:
            return
        self._prepared.add(stage)
        self._host.prepare(stage)
        stages.load(stage, self.codec.codec.package)
        if stage == "prompt":
            self._when_ready()
            self._host.warm_up()

    # --- opening ------------------------------------------------------------------------------------------------------

    @property
    def model_setup(self) -> ModelSetup | None:
        """What a person has to do before the model can be used; None where there is nothing."""
        return self._host.model_setup

    @property
    def sessions(self) -> Sessions:
        """The engine's sessions."""
        return self._host.sessions

    async def adopt(self, opening: Awaitable[Session], context: Context[Connection, Any]) -> Conversation:
        """Registers a session once it is open: prompts may come. It is shown when the response of `context` is out.

        What opens a session is not cancelled half-way, because the store would go on holding one that nobody has.
        """
        from acp_adapter.conversation import Conversation  # of the session stage
        from acp_adapter.editor_files import EditorFiles

        session: Session | None = None
        with anyio.CancelScope(shield=True):
            session = await opening
        assert session is not None
        codec = self.codec.codec
        files = EditorFiles(
            session.session_id,
            self.documents,
            context.peer,
            codec,
            session.spelled,
            redactor=self._host.redactor,
            reads=self._reads_files,
            writes=self._writes_files,
        )
        conversation = Conversation(session, context.peer, codec, files)
        self._conversations[session.session_id] = conversation
        context.after_response(partial(conversation.start, self._tasks))
        context.after_response(partial(self.prepare, "prompt"))
        context.after_response(conversation.connect)
        return conversation

    async def reopen(
        self, wanted: OpenSession, context: Context[Connection, Any], *, is_replayed: bool
    ) -> Conversation:
        """The conversation of a session of the store, which may be open on this connection already.

        One that is open and idle is closed first where it is to go on in other directories, or with other MCP servers;
        and one that has become read-only, so that it goes on with what was kept.
        `is_replayed`: what was shown of it is shown again first. If that fails or is cancelled, a session that was not
        open before is not open afterwards.

        Raises:
            SessionNotFoundError, SessionInUseError.
            SessionBusyError: it is open and busy, and cannot be moved.
            InvalidRequestError: it cannot go on there.
        """
        # One at a time, so that a second request for the same session finds what the first has opened.
        async with self._changing:
            conversation = self.find(wanted.session_id)
            if conversation is not None and not conversation.is_open:
                await conversation.closed()
                conversation = None
            if conversation is not None and (
                conversation.session.is_read_only
                or conversation.session.would_move(wanted.cwd, wanted.directories, wanted.servers)
            ):
                await self.close(conversation)
                conversation = None
            if conversation is not None:
                if is_replayed:
                    await conversation.replay()
                return conversation
            opening = self.sessions.load(SessionId(wanted.session_id), wanted.cwd, wanted.directories, wanted.servers)
            conversation = await self.adopt(opening, context)
            if is_replayed:
                await self._replay(conversation)
            else:
                context.after_response(conversation.show_finished)
            return conversation

    async def _replay(self, conversation: Conversation) -> None:
        try:
            await conversation.replay()
        except BaseException:
            # The client is told that it is not open, so prompts that came meanwhile are not shown either.
            conversation.give_up()
            await self.close(conversation)
            raise

    # --- finding and closing ------------------------------------------------------------------------------------------

    def find(self, session_id: str) -> Conversation | None:
        """The open conversation of this id, if there is one."""
        return self._conversations.get(session_id)

    def conversation(self, session_id: str) -> Conversation:
        """The open conversation of this id.

        Raises:
            ProtocolError: resource not found.
        """
        conversation = self.find(session_id)
        if conversation is None:
            raise ProtocolError(
                RESOURCE_NOT_FOUND, "no such session is open on this connection", {"sessionId": session_id}
            )
        return conversation

    async def close(self, conversation: Conversation) -> None:
        """Cancels what runs, waits until its prompts are answered, and frees the session. May be called twice."""
        await conversation.close(partial(self._release, conversation.session.session_id))

    async def _release(self, session_id: SessionId) -> None:
        try:
            await self.sessions.close(session_id)
        finally:
            self._conversations.pop(session_id, None)

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

    async def client_left(self) -> None:
        """Cancels what runs, because nobody will read more than its end."""
        for conversation in self._conversations.values():
            conversation.session.cancel()
            conversation.give_up()
