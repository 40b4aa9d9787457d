"""`initialize` and `authenticate`: shapes, readers and writers.

What is advertised here is served; a test compares the two. Source of the shapes: ACP v1 schema, `InitializeRequest`,
`AuthenticateRequest` and the types they use. An omitted capability is unsupported.
"""

from typing import Annotated, Final

from pydantic import Field

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Authenticate, Initialize, Initialized, SignIn
from acp_adapter.wire import Empty, ForgivingModel, WireModel, from_wire, to_wire


class Implementation(ForgivingModel):
    name: str
    version: str
    title: str | None = None


class FileSystemCapabilities(ForgivingModel):
    read_text_file: bool = False
    write_text_file: bool = False


class ConfigOptionsCapabilities(ForgivingModel):
    boolean: Empty | None = None


class ClientSessionCapabilities(ForgivingModel):
    compaction: Empty | None = None
    config_options: ConfigOptionsCapabilities | None = None
    notices: Empty | None = None


class ClientAuthCapabilities(ForgivingModel):
    terminal: bool = False


class ElicitationCapabilities(ForgivingModel):
    form: Empty | None = None
    url: Empty | None = None


class ClientCapabilities(ForgivingModel):
    fs: FileSystemCapabilities = Field(default_factory=FileSystemCapabilities)
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: ClientAuthCapabilities = Field(default_factory=ClientAuthCapabilities)
    elicitation: ElicitationCapabilities | None = None


class InitializeRequest(ForgivingModel):
    """The agent chooses the version, so any number is accepted here."""

    protocol_version: Annotated[int, Field(ge=0)]
    client_capabilities: ClientCapabilities = Field(default_factory=ClientCapabilities)
    client_info: Implementation | None = None


class PromptCapabilities(WireModel):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(WireModel):
    http: bool = False
    sse: bool = False


class SessionCapabilities(WireModel):
    """Methods that the agent serves: `{}` means served."""

    list_: Empty | None = Field(default=None, validation_alias="list", serialization_alias="list")
    delete: Empty | None = None
    additional_directories: Empty | None = None
    resume: Empty | None = None
    close: Empty | None = None
    fork: Empty | None = None


class AgentAuthCapabilities(WireModel):
    logout: Empty | None = None


class AgentCapabilities(WireModel):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = Field(default_factory=PromptCapabilities)
    mcp_capabilities: McpCapabilities = Field(default_factory=McpCapabilities)
    session_capabilities: SessionCapabilities = Field(default_factory=SessionCapabilities)
    auth: AgentAuthCapabilities = Field(default_factory=AgentAuthCapabilities)


class AgentAuthMethod(WireModel):
    """The agent signs in when `authenticate` names this id."""

    id: str
    name: str
    description: str | None = None


class InitializeResponse(WireModel):
    protocol_version: int
    agent_capabilities: AgentCapabilities = Field(default_factory=AgentCapabilities)
    auth_methods: list[AgentAuthMethod] = Field(default_factory=list[AgentAuthMethod])
    agent_info: Implementation | None = None


class AuthenticateRequest(ForgivingModel):
    method_id: str


_TERMINALS: Final = "terminal_output"
"""Key in the `_meta` of client capabilities: the client draws terminals for an agent's commands, as Zed does."""


def _read_initialize(params: object) -> Initialize:
    request = from_wire(InitializeRequest, params)
    client = request.client_capabilities
    return Initialize(
        terminals=(client.meta or {}).get(_TERMINALS) is True,
        notices=client.session is not None and client.session.notices is not None,
        reads_files=client.fs.read_text_file,
        writes_files=client.fs.write_text_file,
    )


def _write_initialized(reply: Initialized) -> Json:
    response = InitializeResponse(
        protocol_version=1,
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
