"""What must be true of a session on a cluster whose parts were killed. Shares no code with the product.

The log is read from the database by SQL. Beside it, a trigger notes of each event which connection stored it, and which
store had the lease then: a connection belongs to one process, so it may only write under one store.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from engine.core.clock import SystemClock
from engine.log.store.postgresql.store import PostgresqlStore

Message = dict[str, Any]
FOR_NOW: Final = "read-only for now"
"""In the refusal of a prompt whose events wait for the database. It may have run."""
_AUDIT = """
CREATE TABLE rewindow.audit (session text, seq bigint, store text, number bigint, backend text);
CREATE FUNCTION rewindow.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO rewindow.audit SELECT new.session, new.seq, leases.store, leases.number,
        pg_backend_pid() || ' ' || (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())
    FROM rewindow.leases WHERE leases.tenant = new.tenant AND leases.session = new.session;
    RETURN new;
END $$;
CREATE TRIGGER noted AFTER INSERT ON rewindow.events FOR EACH ROW EXECUTE FUNCTION rewindow.note();
"""


@dataclass
class Act:
    """What a client asked with one prompt: a variable, a file, or neither."""

    text: str
    name: str = ""
    path: str = ""
    content: str = ""
    reason: str | None = None
    """The stop reason that the client received."""
    refusal: str = ""
    """The error that it received instead."""

    @property
    def is_acknowledged(self) -> bool:
        return self.reason == "end_turn"


@dataclass
class Book:
    """What the database has of a session."""

    log: list[Message] = field(default_factory=list[Message])
    audit: list[tuple[int, str, int, str]] = field(default_factory=list[tuple[int, str, int, str]])
    """Of each event: its number, the store with the lease and the lease's number, and the connection."""


def audit(address: str) -> None:
    """Make the tables, and begin to note who stores what."""
    with closing(PostgresqlStore(address, SystemClock())) as store:
        store.inspect()  # which makes the tables
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(_AUDIT)


def read_book(address: str, session: str) -> Book:
    with closing(psycopg.connect(address)) as connection:
        rows = connection.execute("SELECT json FROM rewindow.events WHERE session = %s ORDER BY seq", (session,))
        log = [json.loads(bytes(data)) for (data,) in rows]
        noted = connection.execute(
            "SELECT seq, store, number, backend FROM rewindow.audit WHERE session = %s ORDER BY seq", (session,)
        )
        return Book(log, [(seq, store, number, backend) for seq, store, number, backend in noted])


def violations(acts: Sequence[Act], book: Book, work: Path) -> list[str]:
    """What is wrong."""
    return [*_acknowledged(acts, book.log), *_log(book), *_names(acts, book.log), *_files(acts, book.log, work)]


def _acknowledged(acts: Sequence[Act], log: Sequence[Message]) -> Iterator[str]:
    """What was acknowledged is there once, and the rest at most once."""
    texts = Counter(event["text"] for event in log if event["kind"] == "user_message")
    asked = Counter(act.text for act in acts)
    acknowledged = Counter(act.text for act in acts if act.is_acknowledged)
    for text, times in asked.items():
        if not acknowledged[text] <= texts[text] <= times:
            yield f"{text!r:.60} was sent {times} times, acknowledged {acknowledged[text]}, stored {texts[text]} times"
    for act, status in _statuses(acts, log):
        if act.refusal and FOR_NOW not in act.refusal and status and asked[act.text] == 1:
            yield f"{act.text!r:.60} was refused ({act.refusal:.100}), and ran: {status}"
    if unknown := set(texts) - set(asked):
        yield f"stored, but never sent: {sorted(unknown)!r:.200}"


def _log(book: Book) -> Iterator[str]:
    """The log is whole, everything on it has one beginning and one end, and one process at a time has written it."""
    log = book.log
    if [event["seq"] for event in log] != list(range(len(log))):
        yield "the events are not numbered one after another"
    for kind, key in (
        ("execution_started", "execution_id"),
        ("execution_finished", "execution_id"),
        ("tool_call", "tool_call_id"),
        ("tool_result", "tool_call_id"),
    ):
        counts = Counter(event[key] for event in log if event["kind"] == kind)
        yield from (f"{kind} of {name} is stored {count} times" for name, count in counts.items() if count > 1)
    counts = Counter(event["kind"] for event in log)
    for begun, ended in (
        ("execution_started", "execution_finished"),
        ("user_message", "run_stop"),
        ("tool_call", "tool_result"),
    ):
        if counts[begun] != counts[ended]:
            yield f"the log has {counts[begun]} {begun} and {counts[ended]} {ended}"
    stores: dict[str, set[str]] = {}
    for _, store, _, backend in book.audit:
        stores.setdefault(backend, set()).add(store)
    for backend, names in stores.items():
        if len(names) > 1:
            yield f"the connection {backend} has written under {len(names)} leases' owners"
    numbers = [number for _, _, number, _ in book.audit]
    if numbers != sorted(numbers):
        yield "events were stored under an earlier lease than events before them"
    if len(book.audit) != len(log):
        yield f"{len(log)} events, and {len(book.audit)} were noted"


def _statuses(acts: Sequence[Act], log: Sequence[Message]) -> Iterator[tuple[Act, str]]:
    """The acts on the log in order, and how their statement ended: `ok`, something else, or "" if it did not begin."""
    known = {act.text: act for act in acts}
    sources = {event["statement_id"]: event["source"] for event in log if event["kind"] == "statement_recorded"}
    ended = {sources[event["statement_id"]]: event["status"] for event in log if event["kind"] == "execution_finished"}
    for event in log:
        if event["kind"] == "user_message" and event["text"] in known:
            yield known[event["text"]], ended.get(event["text"], "")


def _names(acts: Sequence[Act], log: Sequence[Message]) -> Iterator[str]:
    """The variables are those of one process that ran the statements which succeeded, and nothing else."""
    shown = [
        event["stdout"]["text"]
        for event in log
        if event["kind"] == "execution_finished" and event["stdout"]["text"].startswith("NAMES ")
    ]
    if not shown:
        yield "the variables were not shown"
        return
    expected: dict[str, int] = {}
    for act, status in _statuses(acts, log):
        if act.name and status == "ok":
            with suppress(NameError):  # of a variable that was lost
                exec(act.text, {}, expected)
    found = dict(ast.literal_eval(shown[-1].removeprefix("NAMES ")))
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            yield f"{name} is {found.get(name)}, and must be {expected.get(name)}"


def _files(acts: Sequence[Act], log: Sequence[Message], work: Path) -> Iterator[str]:
    """Each file is as the last write that succeeded left it, or as a later one that was interrupted, and whole."""
    allowed: dict[str, list[str | None]] = {}
    for act, status in _statuses(acts, log):
        if act.path:
            states = allowed.setdefault(act.path, [None])
            allowed[act.path] = [act.content] if status == "ok" else [*states, act.content]
    for path, states in allowed.items():
        place = work / path
        found = place.read_text() if place.exists() else None
        if found not in states:
            text = found or "nothing"
            yield f"{path} is {text[:20]!r} and so on, {len(text)} characters; {len(states)} states are allowed"
    for each in work.iterdir():
        if each.name not in allowed:
            yield f"a file is left: {each.name}"
