"""`session/set_mode`: allowed while a turn is running; counts from the next statement on."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import SetMode
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: SetMode) -> None:
    connection.conversation(params.session_id).session.set_mode(params.mode)


async def _handle(context: Context[Connection, None], params: SetMode) -> None:
    return None


METHOD: Final = Method("session/set_mode", _accept, _handle)
