"""`session/cancel`: ends the running turn and withdraws queued prompts, the moment its line is read.

Unknown and idle sessions are ignored; the answer is that of the prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.sessions import SessionRequest

if TYPE_CHECKING:
    from acp_adapter.connection import Connection


def _accept(connection: Connection, params: SessionRequest) -> None:
    conversation = connection.find(params.session_id)
    if conversation is not None:
        conversation.session.cancel()


async def _handle(context: Context[Connection, None], params: SessionRequest) -> None:
    return None


METHOD: Final = Method("session/cancel", SessionRequest, _accept, _handle, is_notification=True)
