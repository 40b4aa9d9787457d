"""Opening sessions and setting their options: shapes, readers and writers of `session/*`, except for `session/prompt`.

Source of the shapes: ACP v1 schema, the requests and responses of the same names, and `SessionModeState`. Version 1
shows a session's mode twice: as one of its `modes`, and as an option, for clients that only know options.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import Discriminator, Field, Tag, model_validator

from acp_adapter import stored_sessions
from acp_adapter.content import SystemPrompt, read_instructions
from acp_adapter.jsonrpc.messages import Json
from acp_adapter.options import ConfigOption, config_options
from acp_adapter.requests import NewSession, OpenedSession, OpenSession, SessionOptions, SetMode, SetOption
from acp_adapter.wire import AbsolutePath, ForgivingModel, NullableList, WireModel, from_wire, to_wire
from engine import MODES, HttpServer, OptionValues, StdioServer

NOT_CONNECTED: Final = (
    "servers that the editor itself serves (type acp) cannot be connected; name a command or an address"
)


class SetConfigOptionResponse(WireModel):
    config_options: list[ConfigOption]


class SessionMode(WireModel):
    id: str
    name: str
    description: str | None = None


class SessionModeState(WireModel):
    current_mode_id: str
    available_modes: list[SessionMode]


class SetModeRequest(ForgivingModel):
    session_id: str
    mode_id: str


class SetConfigOptionRequest(ForgivingModel):
    """`value` is a boolean only with `type` "boolean"; a string is always the id of a value."""

    session_id: str
    config_id: str
    value: str | bool
    type: Any = None

    @model_validator(mode="after")
    def _boolean_only_when_announced(self) -> Self:
        if isinstance(self.value, bool) and self.type != "boolean":
            raise ValueError('value must be a string unless type is "boolean"')
        return self


class NameValue(ForgivingModel):
    """An environment variable or a header."""

    name: str
    value: str


class McpServerStdio(ForgivingModel):
    """A server that the agent starts. This shape has no `type`."""

    name: str
    command: str
    args: NullableList[str]
    env: NullableList[NameValue]


class McpServerHttp(ForgivingModel):
    type: Literal["http"] = "http"
    name: str
    url: str
    headers: NullableList[NameValue]


class McpServerSse(ForgivingModel):
    type: Literal["sse"] = "sse"
    name: str
    url: str
    headers: NullableList[NameValue]


class McpServerOfClient(ForgivingModel):
    """A server that the client itself serves, over the protocol's own connection. Refused."""

    type: Literal["acp"] = "acp"

    @model_validator(mode="after")
    def _is_not_served(self) -> Self:
        raise ValueError(NOT_CONNECTED)


def _server_tag(value: Any) -> str:
    kind: object = cast("Any", value).get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if kind in ("http", "sse", "acp") else "stdio"


McpServer = Annotated[
    Annotated[McpServerHttp, Tag("http")]
    | Annotated[McpServerSse, Tag("sse")]
    | Annotated[McpServerOfClient, Tag("acp")]
    | Annotated[McpServerStdio, Tag("stdio")],
    Discriminator(_server_tag),
]


class NewSessionRequest(ForgivingModel):
    """`system_prompt` is unstable in the schema."""

    strict_fields = frozenset({"additional_directories", "system_prompt"})
    cwd: AbsolutePath
    mcp_servers: NullableList[McpServer]
    additional_directories: NullableList[AbsolutePath] = Field(default_factory=list[str])
    system_prompt: SystemPrompt | None = None


class NewSessionResponse(WireModel):
    """The answer to session/new and to session/fork."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: list[ConfigOption] | None = None


class LoadSessionRequest(NewSessionRequest):
    """The agent sends the whole conversation before the response."""

    session_id: str


class LoadSessionResponse(WireModel):
    """The answer to session/load and to session/resume."""

    modes: SessionModeState | None = None
    config_options: list[ConfigOption] | None = None


class ResumeSessionRequest(ForgivingModel):
    """The agent does not send the conversation."""

    strict_fields = frozenset({"additional_directories", "mcp_servers", "system_prompt"})
    session_id: str
    cwd: AbsolutePath
    mcp_servers: NullableList[McpServer] = Field(default_factory=list[McpServer])
    additional_directories: NullableList[AbsolutePath] = Field(default_factory=list[str])
    system_prompt: SystemPrompt | None = None


class ForkSessionRequest(ResumeSessionRequest):
    """A new session continues from the current state of this one. Unstable in the schema."""


# --- modes and options ------------------------------------------------------------------------------------------------


def _mode_state(values: OptionValues) -> SessionModeState:
    modes = [SessionMode(id=mode, name=name, description=text) for mode, (name, text) in MODES.items()]
    return SessionModeState(current_mode_id=values.mode, available_modes=modes)


def _read_set_mode(params: object) -> SetMode:
    request = from_wire(SetModeRequest, params)
    return SetMode(request.session_id, request.mode_id)


def _read_set_option(params: object) -> SetOption:
    request = from_wire(SetConfigOptionRequest, params)
    return SetOption(request.session_id, request.config_id, request.value)


def _write_options(reply: SessionOptions) -> Json:
    return to_wire(SetConfigOptionResponse(config_options=_options(reply)))


def _options(reply: SessionOptions) -> list[ConfigOption]:
    return config_options(reply.values, booleans=reply.booleans)


# --- sessions ---------------------------------------------------------------------------------------------------------


def _read_new(params: object) -> NewSession:
    request = from_wire(NewSessionRequest, params)
    instructions = read_instructions(request.system_prompt, request.meta)
    return NewSession(request.cwd, tuple(request.additional_directories), _servers(request.mcp_servers), instructions)


def _servers(servers: Iterable[McpServer]) -> tuple[StdioServer | HttpServer, ...]:
    return tuple(map(_server, servers))


def _server(server: McpServer) -> StdioServer | HttpServer:
    if isinstance(server, McpServerStdio):
        variables = {each.name: each.value for each in server.env}
        return StdioServer(name=server.name, command=server.command, args=tuple(server.args), env=variables)
    assert not isinstance(server, McpServerOfClient)  # reading it fails
    headers = {each.name: each.value for each in server.headers}
    return HttpServer(name=server.name, url=server.url, headers=headers, transport=server.type)


def _write_new(reply: OpenedSession) -> Json:
    return to_wire(
        NewSessionResponse(
            session_id=reply.session_id, modes=_mode_state(reply.options.values), config_options=_options(reply.options)
        )
    )


def _read_load(params: object) -> OpenSession:
    return _opened(from_wire(LoadSessionRequest, params))


def _read_resume(params: object) -> OpenSession:
    return _opened(from_wire(ResumeSessionRequest, params))


def _read_fork(params: object) -> OpenSession:
    return _opened(from_wire(ForkSessionRequest, params))


def _opened(request: LoadSessionRequest | ResumeSessionRequest) -> OpenSession:
    directories, servers = tuple(request.additional_directories), _servers(request.mcp_servers)
    instructions = read_instructions(request.system_prompt, request.meta)
    return OpenSession(request.session_id, request.cwd, directories, servers, instructions=instructions)


def _write_loaded(reply: OpenedSession) -> Json:
    return to_wire(LoadSessionResponse(modes=_mode_state(reply.options.values), config_options=_options(reply.options)))


READERS: Final = {
    **stored_sessions.SHARED_READERS,
    "session/new": _read_new,
    "session/load": _read_load,
    "session/resume": _read_resume,
    "session/fork": _read_fork,
    "session/set_mode": _read_set_mode,
    "session/set_config_option": _read_set_option,
}
WRITERS: Final = {
    **stored_sessions.SHARED_WRITERS,
    "session/new": _write_new,
    "session/load": _write_loaded,
    "session/resume": _write_loaded,
    "session/fork": _write_new,
    "session/set_config_option": _write_options,
}
