"""What an editor asks about sessions in version 1: new, load, resume, fork, list, delete, close, cancel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from acp_adapter.replies import OpenedSession, SessionPage
from acp_adapter.requests import ListSessions, NewSession, OpenSession, SessionRef
from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import from_wire, to_wire
from acp_adapter.wire.v1.options import config_options, mode_state
from acp_adapter.wire.v1.shapes.sessions import (
    ForkSessionRequest,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpServerStdio,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    SessionInfo,
    SessionRequest,
)
from acp_adapter.wire.v1.shapes.sessions import McpServer as ShownServer
from acp_adapter.wire.v1.times import timestamp
from engine import HttpServer, McpServer, SessionRow, StdioServer


def _read_new(params: object) -> NewSession:
    request = from_wire(NewSessionRequest, params)
    return NewSession(request.cwd, tuple(request.additional_directories), _servers(request.mcp_servers))


def _servers(servers: Iterable[ShownServer]) -> tuple[McpServer, ...]:
    return tuple(map(_server, servers))


def _server(server: ShownServer) -> McpServer:
    if isinstance(server, McpServerStdio):
        variables = {each.name: each.value for each in server.env}
        return StdioServer(name=server.name, command=server.command, args=tuple(server.args), env=variables)
    headers = {each.name: each.value for each in server.headers}
    return HttpServer(name=server.name, url=server.url, headers=headers, transport=server.type)


def _write_new(reply: OpenedSession) -> Json:
    return to_wire(
        NewSessionResponse(
            session_id=reply.session_id, modes=mode_state(reply.options), config_options=config_options(reply.options)
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
    return to_wire(LoadSessionResponse(modes=mode_state(reply.options), config_options=config_options(reply.options)))


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


READERS: Final = {
    "session/new": _read_new,
    "session/load": _read_load,
    "session/resume": _read_resume,
    "session/fork": _read_fork,
    "session/list": _read_list,
    "session/delete": _read_ref,
    "session/close": _read_ref,
    "session/cancel": _read_ref,
}
WRITERS: Final = {
    "session/new": _write_new,
    "session/load": _write_loaded,
    "session/resume": _write_loaded,
    "session/fork": _write_new,
    "session/list": _write_page,
}
