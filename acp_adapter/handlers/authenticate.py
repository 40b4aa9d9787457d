"""`authenticate`: there is nothing to sign in to, so every method id is unknown."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import Authenticate
from acp_adapter.rpc.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method


async def _handle(context: Context[Connection, None], params: Authenticate) -> None:
    raise ProtocolError(Code.INVALID_PARAMS, "methodId: this agent has no authentication methods and needs none")


METHOD: Final = Method("authenticate", None, _handle, needs_initialization=False)
