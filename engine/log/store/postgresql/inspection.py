"""Inspecting a PostgreSQL database for `doctor`: its server, our rights, and whether the tables agree."""

from __future__ import annotations

from typing import Final

import psycopg
from msgspec import Struct

from .database import Database
from .leases import LEASE_SECONDS

_TABLES: Final = {
    "sessions": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "events": ("SELECT", "INSERT", "DELETE"),
    "blobs": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "refs": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "leases": ("SELECT", "INSERT", "UPDATE", "DELETE"),
}
"""The rights that a store needs. It locks rows of `blobs`, which takes UPDATE."""
_HAS_RIGHT: Final = "SELECT has_table_privilege(%s, %s)"
_FACTS: Final = (
    "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'),"
    " (SELECT max(version) FROM migrations), has_sequence_privilege('lease_numbers', 'USAGE')"
)
_MISCOUNTED: Final = (
    "SELECT session, events, there FROM (SELECT session, events, (SELECT count(*) FROM events"
    " WHERE events.tenant = sessions.tenant AND events.session = sessions.session) AS there"
    " FROM sessions WHERE tenant = %s) AS counted WHERE events <> there LIMIT 10"
)
NO_FSYNC: Final = "the server has {} = off, so a crash of its machine can lose or damage sessions"
NO_TLS: Final = "the connection to the server is not encrypted; add sslmode=verify-full to the address"


class Inspection(Struct, frozen=True):
    """What a server is, which rights are missing, and what the user may want to change."""

    summary: str
    missing_rights: tuple[str, ...]
    notes: tuple[str, ...]


def inspect(database: Database) -> Inspection:
    """Look at the server. Raises StoreError."""
    (facts,) = database.query(_FACTS)
    version, fsync, full_pages, schema, may_number = facts
    missing = [
        f"{right} on {table}"
        for table, rights in _TABLES.items()
        for right in rights
        if database.query(_HAS_RIGHT, (table, right)) != [(True,)]
    ]
    missing += [] if may_number else ["USAGE on lease_numbers"]
    durability = {"fsync": fsync, "full_page_writes": full_pages}
    notes = [NO_FSYNC.format(name) for name, value in durability.items() if value == "off"]
    notes += [] if database.is_encrypted() else [NO_TLS]
    return Inspection(
        summary=f"PostgreSQL {version}, tables of version {schema}; a lease lasts {LEASE_SECONDS:.0f} s",
        missing_rights=tuple(missing),
        notes=tuple(notes),
    )


def faults(database: Database, tenant: str, seconds: float) -> list[str] | None:
    """Return wrong event counts, at most ten; None if the check did not end within `seconds`. Raises StoreError."""
    with database.writing() as connection:
        connection.execute("SELECT set_config('statement_timeout', %s, true)", (f"{seconds * 1000:.0f}ms",))
        try:
            found = connection.execute(_MISCOUNTED, (tenant,)).fetchall()
        except psycopg.errors.QueryCanceled:
            return None
    return [
        f"session {session} should have {said} events, but {there} are stored; restore the database from a copy"
        for session, said, there in found
    ]
