"""`session/delete`: the session is gone from the store. One that is not there, or not any more, is no error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.sessions import SessionRequest

if TYPE_CHECKING:
    from acp_adapter.connection import Connection


def _accept(connection: Connection, params: SessionRequest) -> None:
    connection.require_initialized()
    conversation = connection.find(params.session_id)
    if conversation is not None:
        conversation.session.begin_close()


async def _handle(context: Context[Connection, None], params: SessionRequest) -> None:
    await context.connection.delete(params.session_id)


METHOD: Final = Method("session/delete", SessionRequest, _accept, _handle)
