"""`session/list`: the sessions of the store, newest first, a page at a time.

The cursor names the last session of a page by its time and id, so that sessions that come or go between two pages
neither repeat nor hide others. The store is asked for one session more than a page holds: whether there is another. A
session that was never prompted has no title, and is not listed.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from acp_adapter.connection import Connection
from acp_adapter.replies import SessionPage
from acp_adapter.requests import ListSessions
from acp_adapter.rpc.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method
from engine import SessionRow

PAGE: Final = 50

Place = tuple[float, str]
"""Where a session stands in the order of a listing: its time, then its id."""
_PLACE: Final = msgspec.json.Decoder(Place)


async def _handle(context: Context[Connection, None], params: ListSessions) -> SessionPage:
    after = _place_in(params.cursor) if params.cursor is not None else None
    rows = await context.connection.sessions.rows(cwd=params.cwd, titled=True, after=after, limit=PAGE + 1)
    return SessionPage(tuple(rows[:PAGE]), _cursor(rows[PAGE - 1]) if len(rows) > PAGE else None)


def _cursor(last: SessionRow) -> str:
    place: Place = (last.updated_at, last.session_id)
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _place_in(cursor: str) -> Place:
    try:
        place = _PLACE.decode(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise ProtocolError(Code.INVALID_PARAMS, "cursor: is none that this agent gave out") from None
    return place


METHOD: Final = Method("session/list", None, _handle)
