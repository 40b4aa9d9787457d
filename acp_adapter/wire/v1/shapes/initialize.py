"""The handshake: versions, capabilities of both sides, authentication, and `$/cancel_request`.

Source: ACP v1 schema, `InitializeRequest`, `AuthenticateRequest`, `CancelRequestNotification` and below. A capability
that is left out is unsupported.
"""

from typing import Annotated, Literal

from pydantic import Field

from acp_adapter.wire.model import Empty, ForgivingModel, RequestId, WireModel


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
    """Any version is taken; which one is spoken then is the agent's choice."""

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
    """`list_` and `delete` are methods; `{}` marks one as served."""

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
    """The agent signs in by itself when `authenticate` names this id."""

    id: str
    name: str
    description: str | None = None


class TerminalAuthMethod(AgentAuthMethod):
    """The client runs this program again in a terminal, with `args`; only if it advertises `auth.terminal`."""

    type: Literal["terminal"] = "terminal"
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] = Field(default_factory=dict[str, str])


class InitializeResponse(WireModel):
    protocol_version: int
    agent_capabilities: AgentCapabilities = Field(default_factory=AgentCapabilities)
    auth_methods: list[TerminalAuthMethod | AgentAuthMethod] = Field(
        default_factory=list[TerminalAuthMethod | AgentAuthMethod]
    )
    agent_info: Implementation | None = None


class AuthenticateRequest(ForgivingModel):
    method_id: str


class CancelRequestNotification(ForgivingModel):
    """`$/cancel_request`, in either direction."""

    request_id: RequestId
