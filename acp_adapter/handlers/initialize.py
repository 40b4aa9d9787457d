"""`initialize`: which version is spoken, and who we are. What this agent can do is said by the version's codec."""

from __future__ import annotations

from functools import partial
from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.replies import Initialized
from acp_adapter.requests import Initialize
from acp_adapter.rpc.methods import Context, Method
from engine import __version__


def _accept(connection: Connection, params: Initialize) -> None:
    connection.initialize(params.version)


async def _handle(context: Context[Connection, None], params: Initialize) -> Initialized:
    context.after_response(partial(context.connection.prepare, "session"))
    return Initialized(context.connection.codec.codec.version, __version__)


METHOD: Final = Method("initialize", _accept, _handle, is_exclusive=True, needs_initialization=False)
