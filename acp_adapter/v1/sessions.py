"""Sessions and their options: shapes, readers and writers of `session/*`, except for `session/prompt`.

Source of the shapes: ACP v1 schema, the requests and responses of the same names, `SessionModeState` and
`SessionConfigOption`. Lists of options are always complete. Version 1 shows a session's mode twice: as one of its
`modes`, and as an option, for clients that only know options. Ids of options that the protocol does not define start
with an underscore.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import Discriminator, Field, Tag, model_validator

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import (
    MODE,
    ListSessions,
    NewSession,
    OpenedSession,
    OpenSession,
    SessionPage,
    SessionRef,
    SessionStatus,
    SessionTitle,
    SetMode,
    SetOption,
    SetTitle,
    option_id,
)
from acp_adapter.wire import AbsolutePath, ForgivingModel, NullableList, WireModel, from_wire, given, to_wire
from engine import MODES, HttpServer, OptionRow, OptionValues, SessionRow, StdioServer

NOT_CONNECTED: Final = (
    "servers that the editor itself serves (type acp) cannot be connected; name a command or an address"
)


class SessionMode(WireModel):
    id: str
    name: str
    description: str | None = None


class SessionModeState(WireModel):
    current_mode_id: str
    available_modes: list[SessionMode]


class SelectOption(WireModel):
    value: str
    name: str
    description: str | None = None


class SelectGroup(WireModel):
    group: str
    name: str
    options: list[SelectOption]


class _ConfigOption(WireModel):
    id: str
    name: str
    description: str | None = None
    category: str | None = None


class SelectConfigOption(_ConfigOption):
    """A choice of one value: a flat list or groups, never mixed."""

    type: Literal["select"] = "select"
    current_value: str
    options: list[SelectOption] | list[SelectGroup]


class BooleanConfigOption(_ConfigOption):
    """On or off. Only for clients that advertise `session.configOptions.boolean`."""

    type: Literal["boolean"] = "boolean"
    current_value: bool


ConfigOption = Annotated[SelectConfigOption | BooleanConfigOption, Field(discriminator="type")]


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


class SetConfigOptionResponse(WireModel):
    config_options: list[ConfigOption]


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
    strict_fields = frozenset({"additional_directories"})
    cwd: AbsolutePath
    mcp_servers: NullableList[McpServer]
    additional_directories: NullableList[AbsolutePath] = Field(default_factory=list[str])


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

    strict_fields = frozenset({"additional_directories", "mcp_servers"})
    session_id: str
    cwd: AbsolutePath
    mcp_servers: NullableList[McpServer] = Field(default_factory=list[McpServer])
    additional_directories: NullableList[AbsolutePath] = Field(default_factory=list[str])


class ForkSessionRequest(ResumeSessionRequest):
    """A new session continues from the current state of this one. Unstable in the schema."""


class ListSessionsRequest(ForgivingModel):
    strict_fields = frozenset({"cwd", "cursor"})
    cwd: AbsolutePath | None = None
    cursor: str | None = None


class SessionInfo(WireModel):
    """A session in a list; `updated_at` is ISO 8601."""

    session_id: str
    cwd: str
    additional_directories: list[str] = Field(default_factory=list[str])
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResponse(WireModel):
    sessions: list[SessionInfo]
    next_cursor: str | None = None


class SetSessionTitleRequest(ForgivingModel):
    """Unstable in the schema."""

    session_id: str
    title: str


class SetSessionTitleResponse(WireModel):
    title: str


class SessionStatusResponse(WireModel):
    """Unstable in the schema."""

    status: Literal["open", "saved"]


class SessionRequest(ForgivingModel):
    """The params of session/delete, session/close, session/status and the notification session/cancel."""

    session_id: str


def timestamp(at: float) -> str | None:
    """Return seconds since the Unix epoch as ISO 8601; None outside the calendar, which imported logs may be."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


# --- modes and options ------------------------------------------------------------------------------------------------


def config_options(values: OptionValues) -> list[ConfigOption]:
    """Return every option with its value, the mode first."""
    mode = SelectConfigOption(
        id=MODE,
        name="Mode",
        category=MODE,
        current_value=values.mode,
        options=[SelectOption(value=mode, name=name, description=text) for mode, (name, text) in MODES.items()],
    )
    return [mode, *(_config_option(row, values.value(row)) for row in values.rows)]


def _config_option(row: OptionRow, value: str) -> SelectConfigOption:
    return SelectConfigOption(
        id=option_id(row.name, row.category),
        name=row.title,
        description=row.text,
        current_value=value,
        **given(category=row.category),
        options=[SelectOption(value=choice, name=meaning) for choice, meaning in row.values.items()],
    )


def _mode_state(values: OptionValues) -> SessionModeState:
    modes = [SessionMode(id=mode, name=name, description=text) for mode, (name, text) in MODES.items()]
    return SessionModeState(current_mode_id=values.mode, available_modes=modes)


def _read_set_mode(params: object) -> SetMode:
    request = from_wire(SetModeRequest, params)
    return SetMode(request.session_id, request.mode_id)


def _read_set_option(params: object) -> SetOption:
    request = from_wire(SetConfigOptionRequest, params)
    return SetOption(request.session_id, request.config_id, request.value)


def _write_options(values: OptionValues) -> Json:
    return to_wire(SetConfigOptionResponse(config_options=config_options(values)))


# --- sessions ---------------------------------------------------------------------------------------------------------


def _read_new(params: object) -> NewSession:
    request = from_wire(NewSessionRequest, params)
    return NewSession(request.cwd, tuple(request.additional_directories), _servers(request.mcp_servers))


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
            session_id=reply.session_id, modes=_mode_state(reply.options), config_options=config_options(reply.options)
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
    return OpenSession(request.session_id, request.cwd, directories, servers)


def _write_loaded(reply: OpenedSession) -> Json:
    return to_wire(LoadSessionResponse(modes=_mode_state(reply.options), config_options=config_options(reply.options)))


def _read_list(params: object) -> ListSessions:
    request = from_wire(ListSessionsRequest, params)
    return ListSessions(request.cwd, request.cursor)


def _write_page(page: SessionPage) -> Json:
    sessions = [_info(row) for row in page.rows]
    if page.next_cursor is None:
        return to_wire(ListSessionsResponse(sessions=sessions))
    return to_wire(ListSessionsResponse(sessions=sessions, next_cursor=page.next_cursor))


def _info(row: SessionRow) -> SessionInfo:
    return SessionInfo(
        session_id=row.session_id,
        cwd=row.cwd,
        additional_directories=list(row.directories),
        title=row.title,
        updated_at=timestamp(row.updated_at),
    )


def _read_ref(params: object) -> SessionRef:
    return SessionRef(from_wire(SessionRequest, params).session_id)


def _read_set_title(params: object) -> SetTitle:
    request = from_wire(SetSessionTitleRequest, params)
    return SetTitle(request.session_id, request.title)


def _write_title(reply: SessionTitle) -> Json:
    return to_wire(SetSessionTitleResponse(title=reply.title))


def _write_status(reply: SessionStatus) -> Json:
    return to_wire(SessionStatusResponse(status=reply.status))


READERS: Final = {
    "session/new": _read_new,
    "session/load": _read_load,
    "session/resume": _read_resume,
    "session/fork": _read_fork,
    "session/list": _read_list,
    "session/set_title": _read_set_title,
    "session/status": _read_ref,
    "session/delete": _read_ref,
    "session/close": _read_ref,
    "session/cancel": _read_ref,
    "session/set_mode": _read_set_mode,
    "session/set_config_option": _read_set_option,
}
WRITERS: Final = {
    "session/new": _write_new,
    "session/load": _write_loaded,
    "session/resume": _write_loaded,
    "session/fork": _write_new,
    "session/list": _write_page,
    "session/set_title": _write_title,
    "session/status": _write_status,
    "session/set_config_option": _write_options,
}
