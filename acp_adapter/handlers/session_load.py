"""`session/load`: a session of the store, with everything that was shown of it shown again before the response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.sessions import LoadSessionRequest, LoadSessionResponse

if TYPE_CHECKING:
    from acp_adapter.connection import Connection


def _accept(connection: Connection, params: LoadSessionRequest) -> None:
    connection.require_initialized()


async def _handle(context: Context[Connection, None], params: LoadSessionRequest) -> LoadSessionResponse:
    from acp_adapter.options import config_options, mode_state  # loads the engine

    conversation = await context.connection.reopen(params.session_id, context, is_replayed=True)
    options = conversation.session.options
    return LoadSessionResponse(modes=mode_state(options), config_options=list(config_options(options)))


METHOD: Final = Method("session/load", LoadSessionRequest, _accept, _handle)
