"""`initialize`, `authenticate`, `logout` and `auth/status`: shapes, readers and writers.

What is advertised here is served; a test compares the two. Source of the shapes: ACP v1 schema, `InitializeRequest`,
`AuthenticateRequest` and the types they use; the unstable one for `auth/status`. An omitted capability is unsupported.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Authenticate, AuthState, AuthStatus, Initialize, Initialized, SignIn
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
    archive: Empty | None = None
    system_prompt: Empty | None = None
    status: Empty | None = None
    title: Empty | None = None


class AgentAuthCapabilities(WireModel):
    logout: Empty | None = None
    status: Empty | None = None


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


class TerminalAuthMethod(WireModel):
    """The client runs the agent's program with these arguments, in a terminal; it never calls `authenticate` for it."""

    type: Literal["terminal"] = "terminal"
    id: str
    name: str
    description: str | None = None
    args: list[str] = Field(default_factory=list[str])


class InitializeResponse(WireModel):
    protocol_version: int
    agent_capabilities: AgentCapabilities = Field(default_factory=AgentCapabilities)
    auth_methods: list[AgentAuthMethod | TerminalAuthMethod] = Field(
        default_factory=list[AgentAuthMethod | TerminalAuthMethod]
    )
    agent_info: Implementation | None = None


class AuthenticateRequest(ForgivingModel):
    method_id: str


class NoParams(ForgivingModel):
    """The params of `logout` and `auth/status`, which may be omitted."""


class Account(WireModel):
    label: str
    active: bool | None = None


class AuthStatusResponse(WireModel):
    state: AuthState
    accounts: list[Account] = Field(default_factory=list[Account])


_TERMINALS: Final = "terminal_output"
"""Key in the `_meta` of client capabilities: the client draws terminals for an agent's commands, as Zed does."""

_SETUP_COMMANDS: Final = "terminal-auth"
"""Key in the `_meta` of client capabilities, and of a method, with the command that the client runs in a terminal. Zed
and the agent registry use it; it is older than methods of type `terminal`."""
_SETUP_LABEL: Final = "Rewindow"


def _read_initialize(params: object) -> Initialize:
    request = from_wire(InitializeRequest, params)
    client = request.client_capabilities
    return Initialize(
        terminals=(client.meta or {}).get(_TERMINALS) is True,
        notices=client.session is not None and client.session.notices is not None,
        condensations=client.session is not None and client.session.compaction is not None,
        reads_files=client.fs.read_text_file,
        writes_files=client.fs.write_text_file,
        forms=client.elicitation is not None and client.elicitation.form is not None,
        runs_setup=client.auth.terminal,
        runs_commands=(client.meta or {}).get(_SETUP_COMMANDS) is True,
        booleans=_shows_booleans(client.session),
    )


def _shows_booleans(session: ClientSessionCapabilities | None) -> bool:
    options = None if session is None else session.config_options
    return options is not None and options.boolean is not None


def _write_initialized(reply: Initialized) -> Json:
    response = InitializeResponse(
        protocol_version=1,
        agent_capabilities=AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
            mcp_capabilities=McpCapabilities(http=True, sse=True),
            session_capabilities=SessionCapabilities(
                list_=Empty(),
                delete=Empty(),
                additional_directories=Empty(),
                resume=Empty(),
                close=Empty(),
                fork=Empty(),
                archive=Empty(),
                system_prompt=Empty(),
                status=Empty(),
                title=Empty(),
            ),
            auth=AgentAuthCapabilities(logout=Empty(), status=Empty()) if reply.sign_in else AgentAuthCapabilities(),
        ),
        auth_methods=[_method(way) for way in reply.sign_in],
        agent_info=Implementation(name="rewindow", title="Rewindow", version=reply.agent_version),
    )
    return to_wire(response)


def _method(way: SignIn) -> AgentAuthMethod | TerminalAuthMethod:
    command = way.command
    if command is not None and way.is_terminal:
        method = TerminalAuthMethod(id=way.method_id, name=way.name, description=way.description, args=[*command.added])
    else:
        method = AgentAuthMethod(id=way.method_id, name=way.name, description=way.description)
    if command is not None and way.shows_command:
        program, *arguments = command.arguments
        shown = {"label": _SETUP_LABEL, "command": program, "args": arguments, "env": command.variables}
        method.meta = {_SETUP_COMMANDS: shown}
    return method


def _read_authenticate(params: object) -> Authenticate:
    return Authenticate(from_wire(AuthenticateRequest, params).method_id)


def _read_nothing(params: object) -> None:
    from_wire(NoParams, params if params is not None else {})


def _write_status(reply: AuthStatus) -> Json:
    accounts = [Account(label=label, active=active) for label, active in reply.accounts]
    return to_wire(AuthStatusResponse(state=reply.state, accounts=accounts))


READERS: Final = {
    "initialize": _read_initialize,
    "authenticate": _read_authenticate,
    "logout": _read_nothing,
    "auth/status": _read_nothing,
}
WRITERS: Final = {"initialize": _write_initialized, "auth/status": _write_status}
