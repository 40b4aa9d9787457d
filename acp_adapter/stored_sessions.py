"""Requests about stored sessions, which are the same in each version: lists, ids, titles and whether one is open.

Shapes, readers and writers. Source of the shapes: ACP v1 schema, the requests and responses of the same names.
"""

from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import Field

from acp_adapter.jsonrpc.messages import Json, WireShapeError
from acp_adapter.requests import ListSessions, SessionPage, SessionRef, SessionStatus, SessionTitle, SetTitle
from acp_adapter.wire import AbsolutePath, ForgivingModel, WireModel, from_wire, to_wire
from engine import SessionRow


class SessionRequest(ForgivingModel):
    """The params of the methods that name a session and nothing else."""

    session_id: str


class ListSessionsRequest(ForgivingModel):
    """`archived` is unstable in the schema."""

    strict_fields = frozenset({"archived", "cwd", "cursor"})
    cwd: AbsolutePath | None = None
    cursor: str | None = None
    archived: str | None = None


class SessionInfo(WireModel):
    """A session in a list; `updated_at` is ISO 8601. `archived` is unstable in the schema."""

    session_id: str
    cwd: str
    additional_directories: list[str] = Field(default_factory=list[str])
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


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


_ARCHIVED: Final = {"exclude": False, "include": None, "only": True}


def timestamp(at: float) -> str | None:
    """Return seconds since the Unix epoch as ISO 8601; None outside the calendar, which imported logs may be."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _read_list(params: object) -> ListSessions:
    request = from_wire(ListSessionsRequest, params)
    archived = "exclude" if request.archived is None else request.archived
    if archived not in _ARCHIVED:
        raise WireShapeError("archived", f"must be one of {', '.join(_ARCHIVED)}")
    return ListSessions(request.cwd, request.cursor, _ARCHIVED[archived])


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
        archived=row.archived,
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


SHARED_READERS: Final = {
    "session/list": _read_list,
    "session/set_title": _read_set_title,
    "session/status": _read_ref,
    "session/archive": _read_ref,
    "session/unarchive": _read_ref,
    "session/delete": _read_ref,
    "session/close": _read_ref,
    "session/cancel": _read_ref,
}
SHARED_WRITERS: Final = {
    "session/list": _write_page,
    "session/set_title": _write_title,
    "session/status": _write_status,
}
