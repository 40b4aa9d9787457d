"""`authenticate`: there is nothing to sign in to, so every method id is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.initialize import AuthenticateRequest

if TYPE_CHECKING:
    from acp_adapter.connection import Connection


async def _handle(context: Context[Connection, None], params: AuthenticateRequest) -> None:
    raise ProtocolError(Code.INVALID_PARAMS, "methodId: this agent has no authentication methods and needs none")


METHOD: Final = Method("authenticate", AuthenticateRequest, None, _handle)
