"""Which session a person means: a new one, one by the start of its id, or the latest of a directory."""

from __future__ import annotations

from ...core.errors import InvalidRequestError, SessionNotFoundError
from ...core.ids import SessionId
from ...session.lifecycle.registry import Sessions
from ...session.session import Session
from ..output.printing import shown

_MOST_NAMED = 5
_UNUSED_EVENTS = 2
"""How many a session has at most in which nothing was asked: it was opened, and its mode was set."""


async def choose(
    sessions: Sessions, start: str | None, cwd: str, goes_on: bool, moved_to: str | None
) -> tuple[Session, str | None, bool]:
    """The session, its title, and whether it was there before.

    Args:
        start: its id, or the start of it; None for a new one.
        cwd: the directory of a new one.
        goes_on: without `start`, the latest of `cwd` instead of a new one.
        moved_to: the directory in which one that was there goes on; None for where it was.

    Raises:
        SessionNotFoundError, SessionInUseError, StoreError.
        InvalidRequestError: several sessions are meant, or none.
    """
    if start is None and not goes_on:
        return await sessions.create(cwd), None, False
    if start is None:
        # Also one without a title, which has only commands and statements of the user's.
        rows = [row for row in await sessions.rows(cwd=cwd) if row.title is not None or row.events > _UNUSED_EVENTS]
        if not rows:
            raise InvalidRequestError(f"no session of {shown(cwd)} can go on; `rewindow run` begins one")
    else:
        rows = [row for row in await sessions.rows() if row.session_id.startswith(start)]
        if not rows:
            raise SessionNotFoundError(SessionId(start))
        if len(rows) > 1:
            names = ", ".join(row.session_id for row in rows[:_MOST_NAMED])
            raise InvalidRequestError(f"{start!r} is the start of {len(rows)} sessions: {names}; give more of it")
    row = rows[0]
    return await sessions.load(row.session_id, moved_to), row.title, True
