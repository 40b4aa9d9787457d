"""`session/delete`: the session is gone from the store. One that is not there, or not any more, is no error."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import SessionRef
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: SessionRef) -> None:
    conversation = connection.find(params.session_id)
    if conversation is not None:
        conversation.session.begin_close()


async def _handle(context: Context[Connection, None], params: SessionRef) -> None:
    await context.connection.delete(params.session_id)


METHOD: Final = Method("session/delete", _accept, _handle)
