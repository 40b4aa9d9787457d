"""What an editor asks about sessions: new, load, resume, fork, list, delete, close, cancel.

Source: ACP v1 schema, the requests and responses of the same names. Must not know how a session is kept.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import Discriminator, Field, Tag

from acp_adapter.wire.model import AbsolutePath, ForgivingModel, NullableList, WireModel
from acp_adapter.wire.v1.shapes.options import ConfigOption, SessionModeState


class NameValue(ForgivingModel):
    """An environment variable or a header."""

    name: str
    value: str


class McpServerStdio(ForgivingModel):
    """A server that the agent starts; the shape without `type`."""

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


def _server_tag(value: Any) -> str:
    kind: object = cast("Any", value).get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if kind in ("http", "sse") else "stdio"


McpServer = Annotated[
    Annotated[McpServerHttp, Tag("http")]
    | Annotated[McpServerSse, Tag("sse")]
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
    """The whole conversation is sent again before the response."""

    session_id: str


class LoadSessionResponse(WireModel):
    """The answer to session/load and to session/resume."""

    modes: SessionModeState | None = None
    config_options: list[ConfigOption] | None = None


class ResumeSessionRequest(ForgivingModel):
    """Nothing is sent again."""

    strict_fields = frozenset({"additional_directories", "mcp_servers"})
    session_id: str
    cwd: AbsolutePath
    mcp_servers: NullableList[McpServer] = Field(default_factory=list[McpServer])
    additional_directories: NullableList[AbsolutePath] = Field(default_factory=list[str])


class ForkSessionRequest(ResumeSessionRequest):
    """A session of its own goes on from what is of that one so far. Of the schema's unstable part."""


class ListSessionsRequest(ForgivingModel):
    strict_fields = frozenset({"cwd", "cursor"})
    cwd: AbsolutePath | None = None
    cursor: str | None = None


class SessionInfo(WireModel):
    """A session as a listing shows it; `updated_at` is ISO 8601."""

    session_id: str
    cwd: str
    additional_directories: list[str] = Field(default_factory=list[str])
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResponse(WireModel):
    sessions: list[SessionInfo]
    next_cursor: str | None = None


class SessionRequest(ForgivingModel):
    """The params of session/delete, session/close and the notification session/cancel."""

    session_id: str
