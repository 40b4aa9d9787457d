"""`session/cancel`: ends the running turn and withdraws queued prompts, the moment its line is read.

Unknown and idle sessions are ignored; the answer is that of the prompts.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import SessionRef
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: SessionRef) -> None:
    conversation = connection.find(params.session_id)
    if conversation is not None:
        conversation.session.cancel()


async def _handle(context: Context[Connection, None], params: SessionRef) -> None:
    return None


METHOD: Final = Method("session/cancel", _accept, _handle, is_notification=True, needs_initialization=False)
