"""`session/load`: a session of the store, with everything that was shown of it shown again before the response."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.options import options_of
from acp_adapter.replies import OpenedSession
from acp_adapter.requests import OpenSession
from acp_adapter.rpc.methods import Context, Method


async def _handle(context: Context[Connection, None], params: OpenSession) -> OpenedSession:
    conversation = await context.connection.reopen(params, context, is_replayed=True)
    return OpenedSession(params.session_id, options_of(conversation.session.options))


METHOD: Final = Method("session/load", None, _handle)
