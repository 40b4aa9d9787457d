"""`session/new`: a session in a directory, on disk before the response is."""

from __future__ import annotations

import logging
from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.options import options_of
from acp_adapter.replies import OpenedSession
from acp_adapter.requests import NewSession
from acp_adapter.rpc.methods import Context, Method

_log = logging.getLogger(__name__)


async def _handle(context: Context[Connection, None], params: NewSession) -> OpenedSession:
    if params.mcp_servers:
        _log.warning("%d MCP servers were given; this version does not connect to any", len(params.mcp_servers))
    connection = context.connection
    session = (await connection.adopt(connection.sessions.create(params.cwd, params.directories), context)).session
    return OpenedSession(session.session_id, options_of(session.options))


METHOD: Final = Method("session/new", None, _handle)
