"""`session/new`: a session in a directory, on disk before the response is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.sessions import NewSessionRequest, NewSessionResponse

if TYPE_CHECKING:
    from acp_adapter.connection import Connection

_log = logging.getLogger(__name__)


def _accept(connection: Connection, params: NewSessionRequest) -> None:
    connection.require_initialized()


async def _handle(context: Context[Connection, None], params: NewSessionRequest) -> NewSessionResponse:
    from acp_adapter.options import config_options, mode_state  # loads the engine

    connection = context.connection
    if params.mcp_servers:
        _log.warning("%d MCP servers were given; this version does not connect to any", len(params.mcp_servers))
    opening = connection.sessions.create(params.cwd, tuple(params.additional_directories))
    session = (await connection.adopt(opening, context)).session
    options = session.options
    return NewSessionResponse(
        session_id=session.session_id, modes=mode_state(options), config_options=list(config_options(options))
    )


METHOD: Final = Method("session/new", NewSessionRequest, _accept, _handle)
