"""Looking at a database from outside, for `doctor`: is it intact, who may read it. Changes nothing."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from .database import explain, printable

_STEPS: Final = 10_000
"""Instructions of SQLite's machine between two looks at the clock; well under a millisecond."""
_MISCOUNTED: Final = (
    "SELECT session, said, there FROM (SELECT session, events AS said,"
    " (SELECT count(*) FROM events WHERE events.session = sessions.session) AS there FROM sessions)"
    " WHERE said IS NOT there LIMIT 10"
)
_LOST: Final = (
    "SELECT session, count(*) FROM refs WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.digest = refs.digest)"
    " GROUP BY session LIMIT 10"
)
_CONTENTS: Final = (
    "SELECT total(length(data)), total(CASE WHEN EXISTS (SELECT 1 FROM refs WHERE refs.digest = blobs.digest"
    " AND NOT droppable) THEN 0 ELSE length(data) END) FROM blobs"
)
_MODES: Final = ((Path.is_dir, 0o700), (Path.is_file, 0o600))


def faults(path: Path, seconds: float) -> list[str] | None:
    """What `PRAGMA quick_check` finds, else which sessions have more or fewer events than they say, or lost contents.

    At most ten lines of each. A database that cannot be read at all is one fault. None where it did not end within
    `seconds`.
    """
    if not path.is_file():  # because opening a pipe would wait for ever
        return [f"{printable(str(path))}: it is no regular file; move it away"]
    try:
        with _looking(path, seconds) as connection:
            found = [str(line) for (line,) in connection.execute("PRAGMA quick_check(10)")]
            if found != ["ok"]:
                return found
            connection.text_factory = _readable
            miscounted = [
                f"session {session}: its row says {said} events, {there} are there; restore the store from a copy"
                for session, said, there in connection.execute(_MISCOUNTED)
            ]
            lost = [
                f"session {session}: {count} of the contents that a rebuild needs are missing; restore the store from a"
                " copy"
                for session, count in connection.execute(_LOST)
            ]
            return [*miscounted, *lost]
    except UnicodeDecodeError as error:
        return [explain(str(path), error)]
    except sqlite3.Error as error:
        return None if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT else [explain(str(path), error)]


def contents_taken(path: Path, seconds: float) -> tuple[int, int] | None:
    """Bytes that contents take, those of several sessions once, and of these what all of their sessions may drop.

    None where it cannot be read, or not within `seconds`.
    """
    if not path.is_file():
        return None
    try:
        with _looking(path, seconds) as connection:
            taken, droppable = connection.execute(_CONTENTS).fetchone()
            return int(taken), int(droppable)
    except (sqlite3.Error, UnicodeDecodeError):
        return None


def open_to_others(*paths: Path) -> list[str]:
    """For each of the paths that more than its owner may use, the command that changes it."""
    commands: list[str] = []
    for path in paths:
        for is_kind, mode in _MODES:
            if is_kind(path) and stat.S_IMODE(path.stat().st_mode) & ~mode:
                commands.append(f"chmod {mode:o} {shlex.quote(printable(str(path)))}")
    return commands


@contextmanager
def _looking(path: Path, seconds: float) -> Generator[sqlite3.Connection]:
    """A connection that cannot change anything, and whose statements are interrupted when the time is over."""
    deadline = time.monotonic() + seconds
    with closing(sqlite3.connect(f"file:{_escaped(path)}?mode=ro", uri=True, timeout=seconds)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        yield connection


def _readable(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


def _escaped(path: Path) -> str:
    return "".join(f"%{byte:02x}" for byte in os.fsencode(path))
