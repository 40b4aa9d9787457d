"""`session/fork`: a new session that goes on from what another one of the store is by now, which stays as it is.

Of the schema's unstable part. Nothing of what was shown of the other one is shown again: the client has it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.options import options_of
from acp_adapter.replies import OpenedSession
from acp_adapter.requests import OpenSession
from acp_adapter.rpc.methods import Context, Method
from engine import Session, SessionId


async def _handle(context: Context[Connection, None], params: OpenSession) -> OpenedSession:
    connection = context.connection
    opening = connection.sessions.fork(SessionId(params.session_id), params.cwd, params.directories, params.servers)
    session = (await connection.adopt(opening, context)).session
    # Not before, because a client that lists its sessions meanwhile would find one that it knows nothing of.
    context.after_response(partial(_entitle, session))
    return OpenedSession(session.session_id, options_of(session.options))


async def _entitle(session: Session) -> None:
    session.entitle()


METHOD: Final = Method("session/fork", None, _handle)
