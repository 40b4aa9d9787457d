"""`session/close`: cancels what runs, answers its prompts, and frees the session; it stays on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.sessions import SessionRequest

if TYPE_CHECKING:
    from acp_adapter.connection import Connection
    from acp_adapter.conversation import Conversation


def _accept(connection: Connection, params: SessionRequest) -> Conversation:
    connection.require_initialized()
    conversation = connection.conversation(params.session_id)
    conversation.session.begin_close()
    return conversation


async def _handle(context: Context[Connection, Conversation], params: SessionRequest) -> None:
    await context.connection.close(context.accepted)


METHOD: Final = Method("session/close", SessionRequest, _accept, _handle)
