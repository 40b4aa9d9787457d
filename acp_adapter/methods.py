"""The methods of ACP that this agent serves: a handler for each, and the table METHODS.

Handlers work with the values in `requests` and never see JSON; the version (`v1`, `v2`) reads their params and writes
their results.
They reach the client's state through `context.connection`. A version need not have every method: reading the params
fails then. Called by the peer (`jsonrpc.peer`), in two steps:

- `accept` runs while the line is read, before any later line. A cancel in the same read therefore finds its turn, and a
  prompt sees every document change that was sent before it.
- `handler` then runs in its own task and returns the result.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from acp_adapter.connection import Connection
from acp_adapter.jsonrpc.dispatch import Context, Method
from acp_adapter.jsonrpc.messages import Code, ProtocolError
from acp_adapter.requests import (
    AUTH_REQUIRED,
    FAILED,
    Authenticate,
    AuthState,
    AuthStatus,
    DocumentChanged,
    DocumentFocused,
    DocumentOpened,
    DocumentRef,
    Initialize,
    Initialized,
    ListSessions,
    NewSession,
    OpenedSession,
    OpenSession,
    Prompt,
    PromptEnded,
    PromptInserted,
    SessionOptions,
    SessionPage,
    SessionRef,
    SessionStatus,
    SessionTitle,
    SetMode,
    SetOption,
    SetTitle,
)
from acp_adapter.sign_in import ways_to_sign_in
from engine import SessionRow, __version__
from engine.core.ids import SessionId

if TYPE_CHECKING:  # loaded in the session stage
    from acp_adapter.conversation import Conversation
    from engine import ModelSetup, Ticket

PAGE: Final = 50
"""Sessions in one page of `session/list`."""

Plain = Context[Connection, None]

# --- initialize, signing in -------------------------------------------------------------------------------------------

NO_KEYS_USED: Final = "this agent needs no authentication"


def _accept_initialize(connection: Connection, params: Initialize) -> None:
    connection.initialize(params)


async def _initialize(context: Plain, params: Initialize) -> Initialized:
    connection = context.connection
    context.after_response(partial(connection.prepare, "session"))
    ways = ways_to_sign_in(params, is_remote=connection.is_remote) if connection.host.takes_keys else ()
    return Initialized(__version__, ways)


async def _authenticate(context: Plain, params: Authenticate) -> None:
    """Read the keys again. The method of type `terminal` is the client's alone."""
    host = context.connection.host
    if not host.takes_keys:
        raise ProtocolError(Code.INVALID_PARAMS, f"methodId: {NO_KEYS_USED}")
    known = [way.method_id for way in ways_to_sign_in(context.connection.client) if not way.is_terminal]
    if params.method_id not in known:
        raise ProtocolError(Code.INVALID_PARAMS, f"methodId: must be {' or '.join(map(repr, known))}")
    missing = await host.sign_in()
    if missing:
        raise ProtocolError(AUTH_REQUIRED, missing)


async def _logout(context: Plain, params: None) -> None:
    """Remove the stored keys. Open sessions stay, and their next model call fails."""
    host = context.connection.host
    if not host.takes_keys:
        raise ProtocolError(Code.METHOD_NOT_FOUND, NO_KEYS_USED)
    await host.sign_out()


async def _auth_status(context: Plain, params: None) -> AuthStatus:
    """Tell whether the model has a key. Unstable in the schema."""
    connection = context.connection
    if not connection.host.takes_keys:
        raise ProtocolError(Code.METHOD_NOT_FOUND, NO_KEYS_USED)
    problem = await connection.host.read_keys()
    used = connection.host.account
    accounts = connection.host.accounts
    listed = tuple((f"{name}, from the {origin}", name == used) for name, origin in accounts.items())
    return AuthStatus(_auth_state(connection.model_setup, has_problem=bool(problem) and used not in accounts), listed)


def _auth_state(setup: ModelSetup | None, *, has_problem: bool) -> AuthState:
    if setup is None:
        return "not_required"
    if has_problem:
        return "unknown"
    return "authenticated" if setup.is_done else "unauthenticated"


# --- opening sessions -------------------------------------------------------------------------------------------------


async def _new(context: Plain, params: NewSession) -> OpenedSession:
    """Create a session. It is on disk before the response is sent."""
    connection = context.connection
    instructions = connection.sessions.instructions(params.instructions)
    opening = connection.sessions.create(params.cwd, params.directories, params.servers)
    conversation = await connection.adopt(opening, context)
    return await _opened(conversation, connection, instructions)


async def _load(context: Plain, params: OpenSession) -> OpenedSession:
    """Reopen a session and send its whole history before the response."""
    return await _reopened(context, params, is_replayed=True)


async def _resume(context: Plain, params: OpenSession) -> OpenedSession:
    """Reopen a session. Its history is sent before the response, if the client asks for that, as version 2 can."""
    return await _reopened(context, params, is_replayed=params.is_replayed)


async def _reopened(context: Plain, params: OpenSession, *, is_replayed: bool) -> OpenedSession:
    connection = context.connection
    instructions = connection.sessions.instructions(params.instructions)
    conversation = await connection.reopen(params, context, is_replayed=is_replayed)
    return await _opened(conversation, connection, instructions)


async def _fork(context: Plain, params: OpenSession) -> OpenedSession:
    """Create a session that continues from another one, which stays unchanged.

    Unstable in the schema. The history is not sent, because the client already has it.
    """
    connection = context.connection
    instructions = connection.sessions.instructions(params.instructions)
    opening = connection.sessions.fork(SessionId(params.session_id), params.cwd, params.directories, params.servers)
    conversation = await connection.adopt(opening, context)

    async def publish_title() -> None:
        conversation.session.entitle()

    # After the response: only sessions with a title are listed, and the client does not know this one's id before.
    context.after_response(publish_title)
    return await _opened(conversation, connection, instructions)


async def _opened(conversation: Conversation, connection: Connection, instructions: str) -> OpenedSession:
    session = conversation.session
    if instructions:
        await session.instruct(instructions)
    return OpenedSession(session.session_id, _options(conversation, connection), session.custom_commands)


def _options(conversation: Conversation, connection: Connection) -> SessionOptions:
    return SessionOptions(conversation.session.options, connection.client.booleans)


# --- listing sessions -------------------------------------------------------------------------------------------------

Position = tuple[float, str]
"""A session's position in the listing: its time, then its id."""
_POSITION: Final = msgspec.json.Decoder(Position)


async def _list(context: Plain, params: ListSessions) -> SessionPage:
    """List sessions, newest first, one page at a time. Sessions without a title were never prompted: not listed.

    The cursor is the position of a page's last session, so sessions that appear or disappear between two pages neither
    repeat others nor hide them. We ask for one session more than a page holds, to know whether there is a next page.
    """
    after = _read_cursor(params.cursor) if params.cursor is not None else None
    rows = await context.connection.sessions.rows(
        cwd=params.cwd, titled=True, archived=params.archived, after=after, limit=PAGE + 1
    )
    return SessionPage(tuple(rows[:PAGE]), _cursor(rows[PAGE - 1]) if len(rows) > PAGE else None)


def _cursor(last: SessionRow) -> str:
    position: Position = (last.updated_at, last.session_id)
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def _read_cursor(cursor: str) -> Position:
    try:
        return _POSITION.decode(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise ProtocolError(Code.INVALID_PARAMS, "cursor: must be a cursor that this agent returned") from None


async def _set_title(context: Plain, params: SetTitle) -> SessionTitle:
    """Give a session another title, whether it is open or not. Unstable in the schema."""
    return SessionTitle(await context.connection.sessions.retitle(SessionId(params.session_id), params.title))


async def _status(context: Plain, params: SessionRef) -> SessionStatus:
    """Tell whether the session is open in this process. Unstable in the schema."""
    return SessionStatus(await context.connection.sessions.status(SessionId(params.session_id)))


# --- prompting --------------------------------------------------------------------------------------------------------


class AcceptedPrompt(NamedTuple):
    """The turn that was registered when the line was read."""

    conversation: Conversation
    ticket: Ticket


def _accept_prompt(connection: Connection, params: Prompt) -> AcceptedPrompt:
    conversation = connection.conversation(params.session_id)
    return AcceptedPrompt(conversation, conversation.accept(params))


async def _prompt(context: Context[Connection, AcceptedPrompt], params: Prompt) -> PromptEnded | PromptInserted:
    """Wait until the turn has ended and all its updates were sent; since version 2, until it has begun."""
    conversation, ticket = context.accepted
    if context.connection.client.version > 1:
        message_id = await conversation.inserted(ticket)
        context.after_response(partial(conversation.settle, ticket))
        return PromptInserted(message_id)
    end = await conversation.ended(ticket)
    if end.cause == "error":
        code = AUTH_REQUIRED if end.unusable else Code.INTERNAL_ERROR
        raise ProtocolError(code, end.detail or FAILED)
    return PromptEnded(end.cause, conversation.session.spent)


def _accept_cancel(connection: Connection, params: SessionRef) -> None:
    """Cancel the running turn and queued prompts. Unknown and idle sessions are ignored."""
    conversation = connection.find(params.session_id)
    if conversation is not None:
        conversation.session.cancel()


# --- modes and options ------------------------------------------------------------------------------------------------


def _accept_set_mode(connection: Connection, params: SetMode) -> Conversation:
    """Set the mode from the next statement on, even during a turn."""
    conversation = connection.conversation(params.session_id)
    conversation.session.set_mode(params.mode)
    return conversation


async def _set_mode(context: Context[Connection, Conversation], params: SetMode) -> None:
    """Respond when the mode is on disk, because a client relies on a mode that it has restricted."""
    await context.accepted.session.recorded()


def _accept_set_option(connection: Connection, params: SetOption) -> Conversation:
    conversation = connection.conversation(params.session_id)
    conversation.set_option(params.option, params.value)
    return conversation


async def _set_option(context: Context[Connection, Conversation], params: SetOption) -> SessionOptions:
    """Return all options with their values, when they are on disk."""
    await context.accepted.session.recorded()
    return _options(context.accepted, context.connection)


# --- closing sessions -------------------------------------------------------------------------------------------------


def _accept_close(connection: Connection, params: SessionRef) -> Conversation | None:
    """Return the session to close. Since version 2, closing one that is not open succeeds."""
    if connection.client.version > 1 and connection.find(params.session_id) is None:
        return None
    conversation = connection.conversation(params.session_id)
    conversation.begin_close()
    return conversation


async def _close(context: Context[Connection, Conversation | None], params: SessionRef) -> None:
    """Cancel the turn, answer its prompts and free the session, which stays on disk."""
    if context.accepted is not None:
        await context.connection.close(context.accepted)


def _accept_removal(connection: Connection, params: SessionRef) -> None:
    """Begin to close a session that will be deleted or archived, if it is open."""
    conversation = connection.find(params.session_id)
    if conversation is not None:
        conversation.begin_close()


async def _delete(context: Plain, params: SessionRef) -> None:
    """Remove a session from the store. A session that does not exist is not an error."""
    await context.connection.delete(params.session_id)


async def _archive(context: Plain, params: SessionRef) -> None:
    """Leave a session out of lists, and close it if it is open. Unstable in the schema."""
    await context.connection.archive(params.session_id)


async def _unarchive(context: Plain, params: SessionRef) -> None:
    """Bring an archived session back into lists. Unstable in the schema."""
    await context.connection.sessions.archive(SessionId(params.session_id), archived=False)


# --- documents --------------------------------------------------------------------------------------------------------


def _did_open(connection: Connection, params: DocumentOpened) -> None:
    connection.documents.did_open(params.uri, params.version, params.text)


def _did_change(connection: Connection, params: DocumentChanged) -> None:
    connection.documents.did_change(params.uri, params.version, params.changes)


def _did_save(connection: Connection, params: DocumentRef) -> None:
    connection.documents.did_save(params.uri)


def _did_close(connection: Connection, params: DocumentRef) -> None:
    connection.documents.did_close(params.uri)


def _did_focus(connection: Connection, params: DocumentFocused) -> None:
    connection.documents.did_focus(params.uri, params.version)


# --- the table --------------------------------------------------------------------------------------------------------

_ROWS: Final[tuple[Method[Connection, Any, Any], ...]] = (
    Method("initialize", _accept_initialize, _initialize, is_exclusive=True, needs_initialization=False),
    Method("authenticate", None, _authenticate, needs_initialization=False),
    Method("logout", None, _logout),
    Method("auth/login", None, _authenticate, needs_initialization=False),
    Method("auth/logout", None, _logout),
    Method("auth/status", None, _auth_status),
    Method("session/new", None, _new),
    Method("session/load", None, _load),
    Method("session/resume", None, _resume),
    Method("session/fork", None, _fork),
    Method("session/list", None, _list),
    Method("session/set_title", None, _set_title),
    Method("session/status", None, _status),
    Method("session/delete", _accept_removal, _delete),
    Method("session/archive", _accept_removal, _archive),
    Method("session/unarchive", None, _unarchive),
    Method("session/prompt", _accept_prompt, _prompt),
    Method("session/cancel", _accept_cancel, is_notification=True, needs_initialization=False),
    Method("session/close", _accept_close, _close),
    Method("session/set_mode", _accept_set_mode, _set_mode),
    Method("session/set_config_option", _accept_set_option, _set_option),
    Method("document/didOpen", _did_open, is_notification=True),
    Method("document/didChange", _did_change, is_notification=True),
    Method("document/didSave", _did_save, is_notification=True),
    Method("document/didClose", _did_close, is_notification=True),
    Method("document/didFocus", _did_focus, is_notification=True),
)
METHODS: Final = {row.name: row for row in _ROWS}
"""The rows by method name."""
