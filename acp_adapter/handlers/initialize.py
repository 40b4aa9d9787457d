"""`initialize`: which version is spoken, and who we are. What this agent can do is said by the version's codec."""

from __future__ import annotations

from functools import partial
from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.replies import Initialized, SignIn
from acp_adapter.requests import Initialize
from acp_adapter.rpc.methods import Context, Method
from engine import __version__

SIGN_IN: Final = "environment"
"""The one way to sign in: the variables that this process was started with."""


def _accept(connection: Connection, params: Initialize) -> None:
    connection.initialize(params)


async def _handle(context: Context[Connection, None], params: Initialize) -> Initialized:
    context.after_response(partial(context.connection.prepare, "session"))
    setup = context.connection.model_setup
    sign_in = None if setup is None else SignIn(SIGN_IN, setup.todo, setup.sentence)
    return Initialized(context.connection.codec.codec.version, __version__, sign_in)


METHOD: Final = Method("initialize", _accept, _handle, is_exclusive=True, needs_initialization=False)
