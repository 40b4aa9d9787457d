"""Settings and store for a command; and finding a session by the start of its id."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from ...core.clock import SystemClock
from ...core.errors import InvalidRequestError, SessionNotFoundError
from ...core.ids import SessionId
from ...core.settings import Settings, hidden_names, load_settings
from ...log.redaction import Redactor
from ...log.secrets import redactor_of
from ...log.store import open_store
from ...log.store_protocol import SessionRow, Store


def settings() -> Settings:
    """What is configured for this process."""
    return load_settings(os.environ)


def redactor() -> Redactor:
    """What takes the secrets of this process's environment out of what is shown and written."""
    return redactor_of(os.environ, hidden_names(os.environ))


def working_directory() -> str:
    """Where the command was started. Raises InvalidRequestError where that is gone, or may not be entered."""
    try:
        return os.getcwd()
    except OSError as error:
        raise InvalidRequestError(f"this directory cannot be worked in: {error.strerror}; change to another") from None


@contextmanager
def store() -> Generator[Store]:
    """The configured store, closed afterwards."""
    opened = open_store(settings().state_dir, SystemClock())
    try:
        yield opened
    finally:
        opened.close()


def find(opened: Store, start: str) -> SessionRow:
    """The only session whose id starts so.

    Raises:
        SessionNotFoundError: there is none.
        InvalidRequestError: there are several, or nothing is said of it: an empty start is a variable that was not set.
    """
    if not start:
        raise InvalidRequestError("the session's id is empty; list the sessions there are with `rewindow sessions`")
    rows = [row for row in opened.rows() if row.session_id.startswith(start)]
    if not rows:
        raise SessionNotFoundError(SessionId(start))
    if len(rows) > 1:
        names = ", ".join(row.session_id for row in rows[:5])
        raise InvalidRequestError(f"{start!r} is the start of {len(rows)} sessions: {names}; give more of it")
    return rows[0]
