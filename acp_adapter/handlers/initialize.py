"""`initialize`: which version is spoken and what this agent can do.

Every requested version is answered with the one we speak: a client that asks for a newer one gets our latest, as
version 1 of the protocol wants it. What is advertised here is served, and a test holds the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.model import Empty
from acp_adapter.wire.v1.shapes.initialize import (
    AgentCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    PromptCapabilities,
    SessionCapabilities,
)
from engine import __version__

if TYPE_CHECKING:
    from acp_adapter.connection import Connection

PROTOCOL_VERSION: Final = 1


def _accept(connection: Connection, params: InitializeRequest) -> None:
    connection.initialized(params.client_capabilities)


async def _handle(context: Context[Connection, None], params: InitializeRequest) -> InitializeResponse:
    context.after_response(context.connection.load_engine)
    return InitializeResponse(
        protocol_version=PROTOCOL_VERSION,
        agent_capabilities=AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(image=False, audio=False, embedded_context=True),
            session_capabilities=SessionCapabilities(
                list_=Empty(), delete=Empty(), additional_directories=Empty(), resume=Empty(), close=Empty()
            ),
        ),
        auth_methods=[],
        agent_info=Implementation(name="rewindow", title="Rewindow", version=__version__),
    )


METHOD: Final = Method("initialize", InitializeRequest, _accept, _handle, is_exclusive=True)
