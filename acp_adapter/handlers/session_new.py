"""`session/new`: a session in a directory, on disk before the response is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.sessions import NewSessionRequest, NewSessionResponse

if TYPE_CHECKING:
    from acp_adapter.server import Connection

_log = logging.getLogger(__name__)


def _accept(connection: Connection, params: NewSessionRequest) -> None:
    connection.require_initialized()


async def _handle(context: Context[Connection, None], params: NewSessionRequest) -> NewSessionResponse:
    from acp_adapter.conversation import Conversation, available_commands  # loads the engine

    connection = context.connection
    if params.mcp_servers:
        _log.warning("%d MCP servers were given; this version does not connect to any", len(params.mcp_servers))
    session = await connection.sessions.create(params.cwd, tuple(params.additional_directories))
    conversation = Conversation(session, connection.notify)

    async def follow_up() -> None:
        # Only now: clients drop or choke on updates for a session whose id they have not been told.
        connection.show(conversation)
        await conversation.announce(available_commands())

    connection.adopt(conversation)
    context.after_response(follow_up)
    return NewSessionResponse(session_id=session.session_id)


METHOD: Final = Method("session/new", NewSessionRequest, _accept, _handle)
