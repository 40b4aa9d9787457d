"""`initialize` and `authenticate` in version 1.

What is advertised here is served, and a test holds the two together.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.replies import Initialized, SignIn
from acp_adapter.requests import Authenticate, Initialize
from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import Empty, from_wire, to_wire
from acp_adapter.wire.v1.shapes.initialize import (
    AgentAuthMethod,
    AgentCapabilities,
    AuthenticateRequest,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    McpCapabilities,
    PromptCapabilities,
    SessionCapabilities,
)

_TERMINALS: Final = "terminal_output"
"""In the `_meta` of a client's capabilities: it draws terminals for what an agent runs by itself, as Zed does."""


def _read_initialize(params: object) -> Initialize:
    request = from_wire(InitializeRequest, params)
    client = request.client_capabilities
    return Initialize(
        request.protocol_version,
        terminals=(client.meta or {}).get(_TERMINALS) is True,
        reads_files=client.fs.read_text_file,
        writes_files=client.fs.write_text_file,
    )


def _write_initialized(reply: Initialized) -> Json:
    response = InitializeResponse(
        protocol_version=reply.version,
        agent_capabilities=AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(image=False, audio=False, embedded_context=True),
            mcp_capabilities=McpCapabilities(http=True, sse=True),
            session_capabilities=SessionCapabilities(
                list_=Empty(),
                delete=Empty(),
                additional_directories=Empty(),
                resume=Empty(),
                close=Empty(),
                fork=Empty(),
            ),
        ),
        auth_methods=[] if reply.sign_in is None else [_method(reply.sign_in)],
        agent_info=Implementation(name="rewindow", title="Rewindow", version=reply.agent_version),
    )
    return to_wire(response)


def _method(sign_in: SignIn) -> AgentAuthMethod:
    return AgentAuthMethod(id=sign_in.method_id, name=sign_in.name, description=sign_in.description)


def _read_authenticate(params: object) -> Authenticate:
    return Authenticate(from_wire(AuthenticateRequest, params).method_id)


READERS: Final = {"initialize": _read_initialize, "authenticate": _read_authenticate}
WRITERS: Final = {"initialize": _write_initialized}
