"""`session/resume`: a session of the store, without showing again what was shown of it."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.options import options_of
from acp_adapter.replies import OpenedSession
from acp_adapter.requests import OpenSession
from acp_adapter.rpc.methods import Context, Method


async def _handle(context: Context[Connection, None], params: OpenSession) -> OpenedSession:
    conversation = await context.connection.reopen(params, context, is_replayed=False)
    return OpenedSession(params.session_id, options_of(conversation.session.options))


METHOD: Final = Method("session/resume", None, _handle)
