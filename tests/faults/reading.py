"""What is on the disk of a session, as another program reads it. Shares no code with the product; the judge gets it."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from tests.faults.judge import Message


def read_logs(database: Path) -> tuple[str, dict[str, list[Message]]]:
    """The verdict of SQLite and the events of each session."""
    found: dict[str, list[Message]] = {}
    try:
        with closing(sqlite3.connect(database)) as opened:
            verdict = "; ".join(row[0] for row in opened.execute("PRAGMA integrity_check"))
            for session, text in opened.execute("SELECT session, json FROM events ORDER BY session, seq"):
                found.setdefault(session, []).append(json.loads(text))
            return verdict, found
    except (sqlite3.Error, ValueError) as error:
        return f"{type(error).__name__}: {error}", {}


def read_log(database: Path, session: str) -> tuple[str, list[Message]]:
    """The verdict of SQLite and the events of the session."""
    verdict, logs = read_logs(database)
    return verdict, logs.get(session, [])


def stored_bytes(state: Path) -> dict[str, bytes]:
    """All bytes below the directory, and the contents that the database keeps compressed."""
    found = {str(path.relative_to(state)): path.read_bytes() for path in state.rglob("*") if path.is_file()}
    for path in state.glob("*.db"):
        with closing(sqlite3.connect(path)) as opened:
            tables = [row[0] for row in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                for number, row in enumerate(opened.execute(f"SELECT * FROM {table}")):
                    for value in row:
                        if isinstance(value, bytes):
                            found[f"{path.name} {table} {number}"] = unpacked(value)
    return found


def unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data
