"""`session/new`: a session in a directory, on disk before the response is."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.options import options_of
from acp_adapter.replies import OpenedSession
from acp_adapter.requests import NewSession
from acp_adapter.rpc.methods import Context, Method


async def _handle(context: Context[Connection, None], params: NewSession) -> OpenedSession:
    connection = context.connection
    opening = connection.sessions.create(params.cwd, params.directories, params.servers)
    session = (await connection.adopt(opening, context)).session
    return OpenedSession(session.session_id, options_of(session.options))


METHOD: Final = Method("session/new", None, _handle)
