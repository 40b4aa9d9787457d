"""`initialize`, `auth/login`, `auth/logout` and `auth/status`: shapes, readers and writers.

Each marker of a capability is an object. A client of version 1 may ask for a higher version with the shapes of version
1, so its capabilities are read too, as far as this version has them. Source of the shapes: ACP v2 schema,
`InitializeRequest`, `LoginAuthRequest` and the types they use; the unstable one for `auth/status`.
"""

from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import Field, model_validator

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Authenticate, AuthState, AuthStatus, Initialize, Initialized, SignIn
from acp_adapter.wire import Empty, ForgivingModel, WireModel, from_wire, to_wire


class Implementation(ForgivingModel):
    name: str
    version: str
    title: str | None = None


class ClientAuthCapabilities(ForgivingModel):
    terminal: Empty | None = None


class ElicitationCapabilities(ForgivingModel):
    form: Empty | None = None
    url: Empty | None = None


class ClientCapabilities(ForgivingModel):
    auth: ClientAuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None


class InitializeRequest(ForgivingModel):
    """`info` is required in the schema, but a client that is told version 2 need not have known its shapes."""

    protocol_version: Annotated[int, Field(ge=0)]
    capabilities: ClientCapabilities | None = None
    info: Implementation | None = None
    client_capabilities: ClientCapabilities | None = None

    @model_validator(mode="after")
    def _is_read_once(self) -> Self:
        if self.capabilities is None:
            self.capabilities = self.client_capabilities or ClientCapabilities()
        return self


class PromptCapabilities(WireModel):
    image: Empty | None = None
    audio: Empty | None = None
    embedded_context: Empty | None = None


class McpCapabilities(WireModel):
    stdio: Empty | None = None
    http: Empty | None = None


class SessionCapabilities(WireModel):
    """The methods that this version requires have no marker."""

    prompt: PromptCapabilities | None = None
    mcp: McpCapabilities | None = None
    delete: Empty | None = None
    additional_directories: Empty | None = None
    fork: Empty | None = None
    archive: Empty | None = None
    system_prompt: Empty | None = None
    status: Empty | None = None
    title: Empty | None = None


class AgentAuthCapabilities(WireModel):
    status: Empty | None = None


class AgentCapabilities(WireModel):
    session: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None


class AgentAuthMethod(WireModel):
    """The agent signs in when `auth/login` names this id."""

    type: Literal["agent"] = "agent"
    method_id: str
    name: str
    description: str | None = None


class TerminalAuthMethod(WireModel):
    """The client runs the agent's program with these arguments, in a terminal."""

    type: Literal["terminal"] = "terminal"
    method_id: str
    name: str
    description: str | None = None
    args: list[str] = Field(default_factory=list[str])


class InitializeResponse(WireModel):
    protocol_version: int
    info: Implementation
    capabilities: AgentCapabilities
    auth_methods: list[AgentAuthMethod | TerminalAuthMethod]


class LoginRequest(ForgivingModel):
    method_id: str


class NoParams(ForgivingModel):
    """The params of `auth/logout` and `auth/status`, which may be omitted."""


class Account(WireModel):
    label: str
    active: bool | None = None


class AuthStatusResponse(WireModel):
    state: AuthState
    accounts: list[Account] = Field(default_factory=list[Account])


def _read_initialize(params: object) -> Initialize:
    client = from_wire(InitializeRequest, params).capabilities or ClientCapabilities()
    return Initialize(
        version=2,
        terminals=True,
        notices=True,
        condensations=True,
        booleans=True,
        forms=client.elicitation is not None and client.elicitation.form is not None,
        runs_setup=client.auth is not None and (client.auth.terminal is not None or _runs_setup_in_v1(params)),
    )


def _runs_setup_in_v1(params: object) -> bool:
    """Return whether the client says so with the mark of version 1, which is a boolean."""
    here: Any = params
    for key in ("clientCapabilities", "auth", "terminal"):
        here = cast("dict[str, Any]", here).get(key) if isinstance(here, dict) else None
    return here is True


def _write_initialized(reply: Initialized) -> Json:
    response = InitializeResponse(
        protocol_version=2,
        info=Implementation(name="rewindow", title="Rewindow", version=reply.agent_version),
        capabilities=AgentCapabilities(
            session=SessionCapabilities(
                prompt=PromptCapabilities(image=Empty(), embedded_context=Empty()),
                mcp=McpCapabilities(stdio=Empty(), http=Empty()),
                delete=Empty(),
                additional_directories=Empty(),
                fork=Empty(),
                archive=Empty(),
                system_prompt=Empty(),
                status=Empty(),
                title=Empty(),
            ),
            auth=AgentAuthCapabilities(status=Empty()) if reply.sign_in else AgentAuthCapabilities(),
        ),
        auth_methods=[_method(way) for way in reply.sign_in],
    )
    return to_wire(response)


def _method(way: SignIn) -> AgentAuthMethod | TerminalAuthMethod:
    if way.command is not None and way.is_terminal:
        return TerminalAuthMethod(
            method_id=way.method_id, name=way.name, description=way.description, args=[*way.command.added]
        )
    return AgentAuthMethod(method_id=way.method_id, name=way.name, description=way.description)


def _read_login(params: object) -> Authenticate:
    return Authenticate(from_wire(LoginRequest, params).method_id)


def _read_nothing(params: object) -> None:
    from_wire(NoParams, params)


def _write_status(reply: AuthStatus) -> Json:
    accounts = [Account(label=label, active=active) for label, active in reply.accounts]
    return to_wire(AuthStatusResponse(state=reply.state, accounts=accounts))


READERS: Final = {
    "initialize": _read_initialize,
    "auth/login": _read_login,
    "auth/logout": _read_nothing,
    "auth/status": _read_nothing,
}
WRITERS: Final = {"initialize": _write_initialized, "auth/status": _write_status}
