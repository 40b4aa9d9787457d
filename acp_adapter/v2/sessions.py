"""Opening sessions and setting their options: shapes, readers and writers of `session/*`, except for `session/prompt`.

Source of the shapes: ACP v2 schema, the requests and responses of the same names.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from acp_adapter import options, stored_sessions
from acp_adapter.content import SystemPrompt, read_instructions
from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import NewSession, OpenedSession, OpenSession, SessionOptions, SetOption
from acp_adapter.updates.session import commands_update
from acp_adapter.v2.options import AvailableCommand, ConfigOption, available_commands, config_options
from acp_adapter.wire import AbsolutePath, ForgivingModel, NullableList, WireModel, from_wire, to_wire
from engine import CommandRow, HttpServer, StdioServer


class SetConfigOptionRequest(ForgivingModel):
    """`value` is the id of a value, or says whether the option is on."""

    session_id: str
    config_id: str
    type: Literal["id", "boolean"]
    value: str | bool

    @model_validator(mode="after")
    def _is_of_its_type(self) -> Self:
        if isinstance(self.value, bool) != (self.type == "boolean"):
            raise ValueError("value must be a string for the type id, and a boolean for the type boolean")
        return self


class SetConfigOptionResponse(WireModel):
    config_options: list[ConfigOption]


class NameValue(ForgivingModel):
    """An environment variable or a header."""

    name: str
    value: str


class McpServerStdio(ForgivingModel):
    """A server that the agent starts."""

    strict_fields = frozenset({"args", "env"})
    type: Literal["stdio"] = "stdio"
    name: str
    command: str
    args: NullableList[str] = Field(default_factory=list[str])
    env: NullableList[NameValue] = Field(default_factory=list[NameValue])


class McpServerHttp(ForgivingModel):
    strict_fields = frozenset({"headers"})
    type: Literal["http"] = "http"
    name: str
    url: str
    headers: NullableList[NameValue] = Field(default_factory=list[NameValue])


McpServer = Annotated[McpServerStdio | McpServerHttp, Field(discriminator="type")]


class NewSessionRequest(ForgivingModel):
    """`system_prompt` is unstable in the schema."""

    strict_fields = frozenset({"additional_directories", "mcp_servers", "system_prompt"})
    cwd: AbsolutePath
    mcp_servers: NullableList[McpServer] = Field(default_factory=list[McpServer])
    additional_directories: NullableList[AbsolutePath] = Field(default_factory=list[str])
    system_prompt: SystemPrompt | None = None


class NewSessionResponse(WireModel):
    """The answer to session/new and to session/fork."""

    session_id: str
    config_options: list[ConfigOption]
    available_commands: list[AvailableCommand]


class ForkSessionRequest(NewSessionRequest):
    """A new session continues from the current state of this one. Unstable in the schema."""

    session_id: str


class ReplayFromStart(ForgivingModel):
    """The whole history. Other types are refused."""

    type: Literal["start"]


class ResumeSessionRequest(NewSessionRequest):
    """With `replay_from` the agent sends the history before the response."""

    strict_fields = frozenset({"additional_directories", "mcp_servers", "replay_from", "system_prompt"})
    session_id: str
    replay_from: ReplayFromStart | None = None


class ResumeSessionResponse(WireModel):
    config_options: list[ConfigOption]
    available_commands: list[AvailableCommand]


# --- options ----------------------------------------------------------------------------------------------------------


def _read_set_option(params: object) -> SetOption:
    request = from_wire(SetConfigOptionRequest, params)
    return SetOption(request.session_id, request.config_id, request.value)


def _write_options(reply: SessionOptions) -> Json:
    return to_wire(SetConfigOptionResponse(config_options=_options(reply)))


def _options(reply: SessionOptions) -> list[ConfigOption]:
    return config_options(options.config_options(reply.values, booleans=reply.booleans))


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
    headers = {each.name: each.value for each in server.headers}
    return HttpServer(name=server.name, url=server.url, headers=headers, transport="http")


def _commands(others: Sequence[CommandRow]) -> list[AvailableCommand]:
    return available_commands(commands_update(others).available_commands)


def _write_new(reply: OpenedSession) -> Json:
    return to_wire(
        NewSessionResponse(
            session_id=reply.session_id,
            config_options=_options(reply.options),
            available_commands=_commands(reply.commands),
        )
    )


def _read_resume(params: object) -> OpenSession:
    request = from_wire(ResumeSessionRequest, params)
    return _opened(request, is_replayed=request.replay_from is not None)


def _read_fork(params: object) -> OpenSession:
    return _opened(from_wire(ForkSessionRequest, params), is_replayed=False)


def _opened(request: ResumeSessionRequest | ForkSessionRequest, *, is_replayed: bool) -> OpenSession:
    directories, servers = tuple(request.additional_directories), _servers(request.mcp_servers)
    instructions = read_instructions(request.system_prompt, request.meta)
    return OpenSession(request.session_id, request.cwd, directories, servers, is_replayed, instructions)


def _write_resumed(reply: OpenedSession) -> Json:
    return to_wire(
        ResumeSessionResponse(config_options=_options(reply.options), available_commands=_commands(reply.commands))
    )


READERS: Final = {
    **stored_sessions.SHARED_READERS,
    "session/new": _read_new,
    "session/resume": _read_resume,
    "session/fork": _read_fork,
    "session/set_config_option": _read_set_option,
}
WRITERS: Final = {
    **stored_sessions.SHARED_WRITERS,
    "session/new": _write_new,
    "session/resume": _write_resumed,
    "session/fork": _write_new,
    "session/set_config_option": _write_options,
}
