"""`session/close`: cancels what runs, answers its prompts, and frees the session; it stays on disk."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.conversation import Conversation
from acp_adapter.requests import SessionRef
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: SessionRef) -> Conversation:
    conversation = connection.conversation(params.session_id)
    conversation.session.begin_close()
    return conversation


async def _handle(context: Context[Connection, Conversation], params: SessionRef) -> None:
    await context.connection.close(context.accepted)


METHOD: Final = Method("session/close", _accept, _handle)
