"""`session/resume`: a session of the store, without showing again what was shown of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.sessions import LoadSessionResponse, ResumeSessionRequest

if TYPE_CHECKING:
    from acp_adapter.connection import Connection


def _accept(connection: Connection, params: ResumeSessionRequest) -> None:
    connection.require_initialized()


async def _handle(context: Context[Connection, None], params: ResumeSessionRequest) -> LoadSessionResponse:
    from acp_adapter.options import config_options, mode_state  # loads the engine

    conversation = await context.connection.reopen(params.session_id, context, is_replayed=False)
    options = conversation.session.options
    return LoadSessionResponse(modes=mode_state(options), config_options=list(config_options(options)))


METHOD: Final = Method("session/resume", ResumeSessionRequest, _accept, _handle)
