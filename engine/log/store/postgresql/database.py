"""One PostgreSQL database: connected to, recognised, migrated, and asked; its errors as sentences.

A connection that broke is replaced once for a read, which may be repeated. A transaction that writes is the caller's to
repeat. No server may keep a lock for a process that sleeps: it ends transactions that are idle for IDLE_SECONDS.

Must not know what an event is. `stored` reads with it, `writer`, `leases` and `maintenance` write.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ....core.errors import StoreError, StoreTooNewError
from ....core.libpq_files import has_service_password
from ....core.store_address import INVALID, shown
from .schema import MIGRATIONS

# Its warnings are about connections that broke, which the errors say, too; they would be on the terminal.
logging.getLogger("psycopg").setLevel(logging.ERROR)

Row = tuple[Any, ...]
Params = Sequence[object]
_Result = TypeVar("_Result")

OLDEST_SERVER: Final = 120_000
"""The oldest version of PostgreSQL that this store was written for."""
IDLE_SECONDS: Final = 5
"""After so long the server ends a transaction whose client does nothing: well before a lease expires."""
_LOCK_SECONDS: Final = 5
_CONNECT_SECONDS: Final = 5
_TRIES: Final = 2
"""How many new connections a read tries, if they break or are refused at once."""
_DEFAULTS: Final[dict[str, str | int]] = {
    "connect_timeout": _CONNECT_SECONDS,
    "application_name": "rewindow",
    # A server that vanished without a word is noticed within about 10 s.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
    # After a fail-over, the server that takes changes is the right one.
    "target_session_attrs": "read-write",
}
_THIS_MACHINE: Final = ("127.0.0.1", "::1")
_TEMPORARY: Final = ("08", "25006", "40001", "40P01", "53", "55P03", "57", "58030")
"""SQLSTATEs, or their classes, of errors that say nothing about the statement: the connection, a server that takes no
changes, conflicts, missing resources (a full disk), locks, an administrator, a failed disk."""
_REASONS: Final = (
    ("53100", "the server's disk is full; free some space there"),
    ("53300", "the server has too many connections; raise max_connections or close some"),
    ("53", "the server lacks resources; see its log"),
    ("25006", "the server takes no changes; wait for the fail-over, or name the primary server in the address"),
    ("42501", "a right is missing; see `rewindow help postgresql`"),
    ("28", "the server refuses this user; check the name and the password"),
    ("3D000", "there is no such database; create it"),
    ("3F000", "the schema is missing; create it, or grant CREATE on the database"),
    ("42P01", "tables are missing; restore the database from a copy"),
    ("57P03", "the server is starting or stopping"),
    ("57", "the server was stopped by an administrator"),
    ("XX", "the database is damaged; see the server's log"),
)


class Database:
    """A database and the schema of a store in it. Any thread may use it.

    Args:
        address: postgresql://...
        schema: of the tables; created if it is missing.
        migrations: the versions to know of.

    Raises:
        StoreError: it cannot be reached, its server is too old, or a right is missing.
        StoreTooNewError: a later version wrote it.
    """

    def __init__(self, address: str, schema: str, migrations: Sequence[LiteralString] = MIGRATIONS) -> None:
        self.name = shown(address)
        self._schema = schema
        self._conninfo = _with_defaults(address)
        self._migrations = migrations
        self._idle: list[Connection[Row]] = []
        self._closed = False
        try:
            self._migrate()
        except CommitLostError:  # what is done is not done again
            self._migrate()

    def connect(self) -> Connection[Row]:
        """Open a connection in autocommit mode; SQL statements begin and end transactions. Raises psycopg.Error."""
        connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            connection.execute(
                "SELECT set_config('search_path', quote_ident(%s), false),"
                " set_config('default_transaction_isolation', 'read committed', false),"
                " set_config('idle_in_transaction_session_timeout', %s, false),"
                " set_config('lock_timeout', %s, false),"
                # Durable, whatever the server's default; `remote_apply` and others stay.
                " set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'"
                " ELSE current_setting('synchronous_commit') END, false)",
                (self._schema, f"{IDLE_SECONDS}s", f"{_LOCK_SECONDS}s"),
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def query(self, statement: LiteralString, params: Params = ()) -> list[Row]:
        """Return the rows of one statement that may be repeated. Raises StoreError."""
        return self._with_connection(lambda connection: connection.execute(statement, params).fetchall())

    def is_encrypted(self) -> bool:
        """Return whether connections are encrypted, or stay on this machine. Raises StoreError."""
        return self._with_connection(_is_encrypted)

    @contextlib.contextmanager
    def writing(self) -> Generator[Connection[Row]]:
        """Run the block in a transaction: committed at the end, rolled back on an exception.

        Raises:
            CommitLostError: the connection broke, so the transaction may have been committed or not.
            StoreError: nothing was written.
        """
        connection = self._with_connection(_begun, keeps=True)
        try:
            yield connection
            connection.execute("COMMIT")
        except psycopg.Error as error:
            lost = is_unanswered(connection, error)
            connection.close()
            raise (CommitLostError if lost else StoreError)(self.explain(error)) from error
        except BaseException:
            connection.close()  # which rolls back
            raise
        self._give_back(connection)

    def explain(self, error: BaseException) -> str:
        """Return a sentence that says what is wrong with the database and what to do, without secrets."""
        if isinstance(error, StoreError):
            return str(error)
        state = getattr(error, "sqlstate", None) or ""
        reason = next((text for known, text in _REASONS if state.startswith(known)), None)
        said = " ".join(str(error).split())
        return f"{self.name}: {reason} ({said})" if reason else f"{self.name}: {said}"

    def close(self) -> None:
        """Close idle connections."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _with_connection(self, action: Callable[[Connection[Row]], _Result], *, keeps: bool = False) -> _Result:
        """Perform the action on an idle connection or a new one; again on another one if it broke."""
        tries = _TRIES
        try:
            while True:
                connection = self._idle.pop() if self._idle else None
                tries -= connection is None
                try:
                    connection = connection or self.connect()
                    result = action(connection)
                except psycopg.errors.ConnectionTimeout:
                    raise
                except BaseException as error:
                    repeats = isinstance(error, psycopg.OperationalError) and is_unanswered(connection, error)
                    if connection is not None:
                        connection.close()
                    if repeats and tries:
                        continue
                    raise
                if not keeps:
                    self._give_back(connection)
                return result
        except psycopg.Error as error:
            raise StoreError(self.explain(error)) from error

    def _give_back(self, connection: Connection[Row]) -> None:
        self._idle.append(connection)
        if self._closed:
            self.close()

    def _migrate(self) -> None:
        with self.writing() as connection:
            version = connection.info.server_version
            if version < OLDEST_SERVER:
                raise StoreError(
                    f"{self.name}: the server has version {version // 10_000}; at least "
                    f"{OLDEST_SERVER // 10_000} is needed"
                )
            found = self._version(connection)
            if found == len(self._migrations):
                return
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('rewindow:' || %s))", (self._schema,))
            if self._version(connection) is None:
                self._create_schema(connection)
                connection.execute(
                    "CREATE TABLE migrations (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
                )
            found = self._version(connection) or 0
            for version, migration in enumerate(self._migrations[found:], found + 1):
                connection.execute(migration)
                connection.execute("INSERT INTO migrations (version) VALUES (%s)", (version,))

    def _create_schema(self, connection: Connection[Row]) -> None:
        # Looked up, because `IF NOT EXISTS` takes the right to create one even if it is there.
        if connection.execute("SELECT to_regnamespace(quote_ident(%s))", (self._schema,)).fetchone() == (None,):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))

    def _version(self, connection: Connection[Row]) -> int | None:
        """Return the number of migrations that the database has seen, None without their table.

        Raises StoreTooNewError.
        """
        if connection.execute("SELECT to_regclass('migrations')").fetchone() == (None,):
            return None
        (found,) = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchall()
        version: int = found[0]
        if version > len(self._migrations):
            raise StoreTooNewError(self.name, version, len(self._migrations))
        return version


class CommitLostError(StoreError):
    """Raised if a transaction may have been committed or not, so the caller looks it up or repeats it."""


def is_temporary(error: BaseException) -> bool:
    """Return whether the same transaction can succeed later."""
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:  # from libpq: no connection, or it broke
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_TEMPORARY)


def is_unanswered(connection: Connection[Row] | None, error: psycopg.Error) -> bool:
    """Return whether the server did not say what became of a statement, so it may have been executed.

    Only its answers have an SQLSTATE. libpq does not call each connection broken that is: an error at the end of a
    pipeline can hide why it ended.
    """
    return connection is None or connection.broken or error.sqlstate is None


def _begun(connection: Connection[Row]) -> Connection[Row]:
    connection.execute("BEGIN")
    return connection


def _is_encrypted(connection: Connection[Row]) -> bool:
    host = connection.info.host
    return connection.pgconn.ssl_in_use or host.startswith(("/", "@")) or connection.info.hostaddr in _THIS_MACHINE


def _with_defaults(address: str) -> str:
    try:
        known = given(address)
        own = {name: value for name, value in _DEFAULTS.items() if name not in known}
        # libpq may not find it by itself, see `hardening.withhold_variables`.
        password = os.environ.get("PGPASSWORD", "")
        service = conninfo_to_dict(address).get("service") or os.environ.get("PGSERVICE", "")
        if password and "password" not in known and not (service and has_service_password(os.environ, str(service))):
            own["password"] = password
        return make_conninfo(address, **own)
    except psycopg.Error:
        raise StoreError(INVALID) from None  # libpq's message may quote a part of the password


def given(address: str) -> set[str]:
    """Return the names of libpq's options that an address sets. Raises psycopg.Error."""
    return set(conninfo_to_dict(address))
