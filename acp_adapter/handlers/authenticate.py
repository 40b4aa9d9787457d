"""`authenticate`: all that there is to sign in with are variables, which were read when this process started."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.errors import AUTH_REQUIRED
from acp_adapter.handlers.initialize import SIGN_IN
from acp_adapter.requests import Authenticate
from acp_adapter.rpc.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method


async def _handle(context: Context[Connection, None], params: Authenticate) -> None:
    setup = context.connection.model_setup
    if setup is None:
        raise ProtocolError(Code.INVALID_PARAMS, "methodId: this agent has no authentication methods and needs none")
    if params.method_id != SIGN_IN:
        raise ProtocolError(Code.INVALID_PARAMS, f"methodId: there is {SIGN_IN!r} only")
    if not setup.is_done:
        raise ProtocolError(AUTH_REQUIRED, setup.sentence)


METHOD: Final = Method("authenticate", None, _handle, needs_initialization=False)
