"""The state of one client: its capabilities, its documents, and its open sessions.

Knows nothing of messages and methods. Made by `server`; handlers (`methods`) reach it through their context. Also
decides when the adapter's modules are loaded (STAGES).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from acp_adapter.editor_files import Documents, EditorFiles
from acp_adapter.jsonrpc.dispatch import Context, Method
from acp_adapter.jsonrpc.messages import Code, ProtocolError
from acp_adapter.requests import RESOURCE_NOT_FOUND, Initialize
from acp_adapter.versions import FIRST, VERSIONS, Versions
from engine import Host
from engine.core.errors import InvalidRequestError, SessionBusyError
from engine.core.ids import SessionId

if TYPE_CHECKING:  # loaded in the session stage
    from acp_adapter.conversation import Conversation
    from acp_adapter.requests import OpenSession
    from acp_adapter.sharing import Sharing
    from engine import ModelSetup, Session, Sessions

Stage = Literal["answering", "session", "prompt"]
"""The engine's stages of start-up (`engine.Host.prepare`)."""

STAGES: Final[dict[Stage, tuple[str, ...]]] = {
    "answering": ("{version}.handshake",),
    "session": ("conversation", "{version}.sessions"),
    "prompt": ("updates.events", "{version}.updates", "{version}.prompts", "{version}.client"),
}
"""Modules to load before `initialize` is read, after its answer, and after the answer to the first `session/new`.

An editor waits for these two answers. So each module is loaded while the editor is not waiting, but before it is
needed. If no session is opened for IDLE_SECONDS, the last ones and the provider's library are loaded meanwhile.
`v1.documents` is missing, because few clients send document notifications. `{version}` is the package of the version
that the connection speaks: version 1 until `initialize` chose.
"""


OPEN_ELSEWHERE: Final = "session {session} is open in {cwd} for another client; load it with the same directories"
OTHERS_HAVE_IT: Final = "session {session} is open for another client; close it there first"

IDLE_SECONDS: Final = 0.2
"""How long after `initialize` a client usually asks for a session: loading meanwhile would delay the answer."""


def load(stage: Stage, version: int = FIRST.VERSION) -> None:
    """Import the adapter's modules of a stage, for a version of the protocol."""
    for name in STAGES[stage]:
        import_module(f"acp_adapter.{name.format(version=VERSIONS[version])}")


class Connection:
    """One client's state. Its sessions run in `tasks`; `when_ready` is called once, after the last stage.

    With `sharing`, other connections may have the same sessions, and a lost client ends nothing.
    """

    def __init__(
        self, host: Host, tasks: TaskGroup, when_ready: Callable[[], None], sharing: Sharing | None = None
    ) -> None:
        self._host = host
        self._tasks = tasks
        self._when_ready = when_ready
        self._client: Initialize | None = None
        """The client's capabilities; None before `initialize`."""
        self.versions: Final = Versions()
        """The version that the client speaks: the first until `initialize`."""
        self._prepared: set[Stage] = set()
        self._conversations: dict[str, Conversation] = {}
        self.documents: Final = Documents()
        """The client's open documents, the same for all sessions."""
        self._lock = anyio.Lock()
        self._sharing = sharing
        self._has_left = False

    # --- handshake and loading ----------------------------------------------------------------------------------------

    def admit(self, method: Method[Any, Any, Any]) -> None:
        """Raise ProtocolError (invalid request) if the method must wait for `initialize`."""
        if method.needs_initialization and self._client is None:
            raise ProtocolError(Code.INVALID_REQUEST, "call initialize first")

    def initialize(self, client: Initialize) -> None:
        """Store the client's capabilities. It may call this again until it opens a session.

        Raises:
            ProtocolError: invalid request, if a session is open.
        """
        if self._conversations:
            raise ProtocolError(Code.INVALID_REQUEST, "initialize cannot be repeated while a session is open")
        self._client = client
        self.versions.use(client.version)

    async def prepare(self, stage: Stage) -> None:
        """Load the modules of a later stage, once."""
        if stage in self._prepared:
            return
        self._prepared.add(stage)
        self._host.prepare(stage)
        load(stage, self.client.version)
        if stage == "session":
            self._tasks.start_soon(self._load_while_idle)
        if stage == "prompt":
            self._when_ready()
            self._host.warm_up()

    async def _load_while_idle(self) -> None:
        """Load the rest before the first session if the client takes its time to open one."""
        await anyio.sleep(IDLE_SECONDS)
        await self.prepare("prompt")

    @property
    def client(self) -> Initialize:
        """The client's capabilities; none before `initialize`."""
        return self._client or Initialize()

    # --- opening ------------------------------------------------------------------------------------------------------

    @property
    def is_remote(self) -> bool:
        """Whether the client may be on another machine."""
        return self._sharing is not None

    @property
    def host(self) -> Host:
        """The engine."""
        return self._host

    @property
    def model_setup(self) -> ModelSetup | None:
        """What the user must set up before the model can be used; None if nothing."""
        return self._host.model_setup

    @property
    def sessions(self) -> Sessions:
        """The engine's sessions."""
        return self._host.sessions

    async def adopt(self, opening: Awaitable[Session], context: Context[Connection, Any]) -> Conversation:
        """Register a session once it is open, so it can take prompts. Updates start after the response of `context`.

        Opening is shielded from cancellation: otherwise the store would keep a session locked that no client has.
        """
        from acp_adapter.conversation import Conversation  # session stage

        session: Session | None = None
        with anyio.CancelScope(shield=True):
            session = await opening
        assert session is not None
        shared = None if self._sharing is None else self._sharing.share(session)
        client = self.client
        files = EditorFiles(
            session.session_id,
            self.documents,
            context.peer,
            session.spelled,
            redactor=self._host.redactor,
            reads=client.reads_files,
            writes=client.writes_files,
        )
        conversation = Conversation(session, context.peer, files, self.versions.current, client, shared)
        self._conversations[session.session_id] = conversation
        if self._has_left:
            conversation.abandon()
        context.after_response(partial(conversation.start, self._tasks))
        context.after_response(partial(self.prepare, "prompt"))
        context.after_response(conversation.connect)
        context.after_response(self._look_for_keys)
        return conversation

    async def _look_for_keys(self) -> None:
        # Clients need not say that their user has signed in.
        self._host.look_for_keys()

    async def reopen(
        self, request: OpenSession, context: Context[Connection, Any], *, is_replayed: bool
    ) -> Conversation:
        """Return the conversation of a stored session, which may already be open on this connection.

        An open, idle session is closed first if it shall continue in other directories or with other MCP servers. So
        is a session that became read-only: it then continues from its log. With `is_replayed`, the history is sent
        first. If that fails or is cancelled, a session that was not open before is closed again. Then the client
        is told whether the session works, if its version has that.

        Raises:
            SessionNotFoundError, SessionInUseError.
            SessionBusyError: it is open and busy, and cannot be moved.
            InvalidRequestError: it cannot continue there.
        """
        directory = self.sessions.directory_of(SessionId(request.session_id), request.cwd)
        request = replace(request, cwd=directory)
        # One at a time, so that a second request for the same session finds the one that the first has opened.
        async with self._changing(request.session_id):
            conversation = self.find(request.session_id)
            if conversation is not None and not conversation.is_open:
                await conversation.closed()
                conversation = None
            if conversation is not None and self._is_over(conversation):
                conversation.abandon()
                conversation = None
            if conversation is not None and self._must_reopen(conversation.session, request, conversation.is_shared):
                await self.close(conversation)
                conversation = None
            if conversation is not None:
                if is_replayed:
                    await conversation.replay()
                await conversation.synchronize()
                return conversation
            conversation = await self.adopt(self._opened(request), context)
            if is_replayed:
                await self._replay(conversation)
            else:
                context.after_response(conversation.show_finished)
            await conversation.synchronize()
            return conversation

    async def _opened(self, request: OpenSession) -> Session:
        """Return the session, which another connection of this process may have, or may have lost."""
        shared = None if self._sharing is None else self._sharing.find(request.session_id)
        if shared is not None:
            if not self._must_reopen(shared.session, request, shared.is_shared(None)):
                return shared.session
            await self.sessions.close(shared.session.session_id)
        return await self.sessions.load(
            SessionId(request.session_id), request.cwd, request.directories, request.servers
        )

    def _is_over(self, conversation: Conversation) -> bool:
        """Whether another connection has closed the session."""
        if self._sharing is None:
            return False
        shared = self._sharing.find(conversation.session.session_id)
        return shared is None or shared.session is not conversation.session

    def _must_reopen(self, session: Session, request: OpenSession, is_shared: bool) -> bool:
        """Return whether an open session must be closed first. Raises SessionBusyError, InvalidRequestError."""
        if is_shared:
            # The servers of the one that opened it stay, because the others use them.
            if not session.is_at(request.cwd, request.directories):
                raise InvalidRequestError(OPEN_ELSEWHERE.format(session=session.session_id, cwd=session.cwd))
            return False
        return session.is_read_only or session.would_move(request.cwd, request.directories, request.servers)

    def _changing(self, session_id: str) -> AbstractAsyncContextManager[object]:
        return self._lock if self._sharing is None else self._sharing.changing(session_id)

    async def _replay(self, conversation: Conversation) -> None:
        try:
            await conversation.replay()
        except BaseException:
            # The response says that the session is not open, so updates of prompts sent meanwhile are dropped too.
            conversation.give_up()
            await self.close(conversation)
            raise

    # --- finding and closing ------------------------------------------------------------------------------------------

    def find(self, session_id: str) -> Conversation | None:
        """Return the open conversation with this id, if there is one."""
        return self._conversations.get(session_id)

    def conversation(self, session_id: str) -> Conversation:
        """Return the open conversation with this id.

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
        """Cancel its turn, wait until its prompts are answered, and free the session. May be called twice.

        If other connections have the session, only the prompts of this one are cancelled, and the session stays.
        """
        if conversation.is_shared:
            await conversation.depart()
            if self.find(conversation.session.session_id) is conversation:
                del self._conversations[conversation.session.session_id]
            return
        await conversation.close(partial(self._release, conversation.session.session_id))

    async def _release(self, session_id: SessionId) -> None:
        try:
            await self.sessions.close(session_id)
        finally:
            self._conversations.pop(session_id, None)

    async def delete(self, session_id: str) -> None:
        """Close a session if it is open on this connection, and remove it from the store.

        Raises:
            SessionInUseError: another process has it open.
        """
        async with self._removing(session_id):
            await self.sessions.delete(SessionId(session_id))

    async def archive(self, session_id: str) -> None:
        """Close a session if it is open on this connection, and leave it out of lists.

        Raises:
            SessionNotFoundError.
            SessionInUseError: another process has it open.
        """
        async with self._removing(session_id):
            await self.sessions.archive(SessionId(session_id), archived=True)

    @asynccontextmanager
    async def _removing(self, session_id: str) -> AsyncGenerator[None]:
        """Close a session for the block. One at a time: the store would report to a second one that it is in use."""
        async with self._changing(session_id):
            conversation = self.find(session_id)
            shared = None if self._sharing is None else self._sharing.find(session_id)
            if shared is not None and shared.is_shared(conversation):
                raise SessionBusyError(OTHERS_HAVE_IT.format(session=shared.session.session_id))
            if conversation is not None:
                await self.close(conversation)
            yield

    async def client_left(self) -> None:
        """Cancel all turns, because the client will read no more. Shared sessions go on without it."""
        self._has_left = True
        for conversation in self._conversations.values():
            if self._sharing is not None:
                conversation.abandon()
                continue
            conversation.session.cancel()
            conversation.give_up()
