"""`session/set_config_option`: allowed while a turn is running; the answer is the complete list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.options import SetConfigOptionRequest, SetConfigOptionResponse

if TYPE_CHECKING:
    from acp_adapter.connection import Connection
    from acp_adapter.conversation import Conversation


def _accept(connection: Connection, params: SetConfigOptionRequest) -> Conversation:
    from acp_adapter.options import option_named  # loads the engine

    connection.require_initialized()
    conversation = connection.conversation(params.session_id)
    if isinstance(params.value, bool):
        raise ProtocolError(Code.INVALID_PARAMS, f"value: {params.config_id} is no boolean option")
    conversation.session.set_option(option_named(params.config_id), params.value)
    return conversation


async def _handle(
    context: Context[Connection, Conversation], params: SetConfigOptionRequest
) -> SetConfigOptionResponse:
    from acp_adapter.options import config_options

    return SetConfigOptionResponse(config_options=list(config_options(context.accepted.session.options)))


METHOD: Final = Method("session/set_config_option", SetConfigOptionRequest, _accept, _handle)
