"""`session/set_mode`: allowed while a turn is running; counts from the next statement on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.options import SetModeRequest

if TYPE_CHECKING:
    from acp_adapter.connection import Connection


def _accept(connection: Connection, params: SetModeRequest) -> None:
    connection.require_initialized()
    connection.conversation(params.session_id).session.set_mode(params.mode_id)


async def _handle(context: Context[Connection, None], params: SetModeRequest) -> None:
    return None


METHOD: Final = Method("session/set_mode", SetModeRequest, _accept, _handle)
