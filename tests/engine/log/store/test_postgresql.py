"""What only the store in PostgreSQL does: leases, broken connections, addresses, versions, tenants."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from engine.core.errors import (
    InvalidRequestError,
    LeaseLostError,
    SessionInUseError,
    SessionReadOnlyError,
    StoreBusyError,
    StoreError,
    StoreTooNewError,
)
from engine.core.store_address import INVALID, has_password, shown
from engine.log.store import group_commit, open_store
from engine.log.store.memory import MemoryStore
from engine.log.store.postgresql import database, inspection, leases
from engine.log.store.postgresql.schema import MIGRATIONS
from engine.log.store.postgresql.store import PostgresqlStore
from engine.log.store.postgresql.writer import PostgresqlCommitter
from engine.log.store_protocol import Store
from tests.support.archives import answered, dropped, kept, values_kept
from tests.support.cutting import CuttingProxy, Direction
from tests.support.postgresql import Server, new_schema
from tests.support.stores import PATIENCE, A, B, CountingClock, Recorder, begun, message, row, texts


@pytest.fixture
def server(postgresql: Callable[[str], Server]) -> Server:
    return postgresql("18")


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
def store(server: Server, schema: str) -> Iterator[PostgresqlStore]:
    with closing(server.store(CountingClock(), schema)) as opened:
        yield opened


@pytest.fixture
def other(server: Server, schema: str) -> Iterator[PostgresqlStore]:
    """Another store on the same tables, as another host has it."""
    with closing(server.store(CountingClock(5000), schema)) as opened:
        yield opened


@pytest.fixture
def proxy(server: Server) -> Iterator[CuttingProxy]:
    directory = Path(tempfile.mkdtemp(prefix="rewindow-cut-"))
    made = CuttingProxy(directory, server.directory)
    yield made
    made.close()
    shutil.rmtree(directory)


@pytest.fixture
def cut(proxy: CuttingProxy, schema: str) -> Iterator[PostgresqlStore]:
    """A store behind the proxy."""
    address = f"postgresql://rewindow@/postgres?host={proxy.directory}"
    with closing(PostgresqlStore(address, CountingClock(), schema=schema)) as opened:
        yield opened


def execute(server: Server, schema: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.address(), autocommit=True, options=f"-c search_path={schema}") as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def expire(server: Server, schema: str) -> None:
    """All leases expire, as if their hosts had slept."""
    execute(server, schema, "UPDATE leases SET expires = now() - interval '1 second'")


# --- leases -----------------------------------------------------------------------------------------------------------


def test_a_session_is_in_use_until_its_lease_expires(
    store: PostgresqlStore, other: PostgresqlStore, server: Server, schema: str
) -> None:
    begun(store, events=1)
    for call in (lambda: other.acquire(A, Recorder()), lambda: other.delete(A), lambda: other.archive(A, True)):
        with pytest.raises(SessionInUseError, match="or wait 10 s if it was killed"):
            call()
    assert other.collect(1e12).in_use == (A,)
    expire(server, schema)
    assert other.owners() == {}
    other.acquire(A, Recorder())
    assert str(other.owners()[A]) == str(store.owners()[A])


def test_a_process_that_lost_its_lease_writes_nothing(
    store: PostgresqlStore, other: PostgresqlStore, server: Server, schema: str
) -> None:
    heard = begun(store, events=2)
    untouched = begun(store, B, events=1)
    expire(server, schema)
    other.acquire(A, Recorder())
    store.submit(A, message(2, "too late"))
    store.retitle(A, "too late")
    error = heard.wait_for_error()
    assert isinstance(error, LeaseLostError)
    with pytest.raises(SessionReadOnlyError, match="took it over"):
        store.submit(A, message(3))
    other.submit(A, message(2, "in time"))
    assert texts(other) == texts(store) == ["hello", "hello", "in time"]
    assert other.row(A).title is None
    store.submit(B, message(1))
    untouched.wait_for(1)
    store.release(A)  # which takes nothing from the other one
    with pytest.raises(SessionInUseError):
        store.acquire(A, Recorder())


def test_a_lost_lease_is_noticed_without_an_event(
    store: PostgresqlStore, other: PostgresqlStore, server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEWAL_SECONDS", 0.05)
    heard = begun(store, events=1)
    with psycopg.connect(server.address(), options=f"-c search_path={schema}") as connection:
        # In one transaction, so that no renewal falls between.
        connection.execute(
            "UPDATE leases SET number = nextval('lease_numbers'), store = 'another', pid = 7, host = 'h'"
        )
    assert str(heard.wait_for_error()).startswith("process 7 on h took it over")


def test_leases_are_renewed(
    store: PostgresqlStore, server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEWAL_SECONDS", 0.05)
    begun(store, events=1)
    (before,) = execute(server, schema, "SELECT expires FROM leases")
    renewed = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        if execute(server, schema, "SELECT expires FROM leases") != [before]:
            renewed.set()
            break
        renewed.wait(0.05)
    assert renewed.is_set()


def test_no_takeover_falls_into_a_commit(store: PostgresqlStore, server: Server, schema: str) -> None:
    # The lock of another session's content keeps the commit between its look at the lease and its end.
    heard = begun(store, events=1)
    (digest,) = kept(store, B, [b"content"])
    expire(server, schema)
    blocking = psycopg.connect(server.address(), options=f"-c search_path={schema}")
    blocking.execute("SELECT FROM blobs FOR UPDATE")
    assert store.blob_put(b"content") == digest
    store.submit(A, answered(1, digest))
    with closing(server.store(CountingClock(), schema)) as other:
        taken = threading.Thread(target=lambda: other.acquire(A, Recorder()))
        taken.start()
        taken.join(0.3)
        assert taken.is_alive()
        blocking.rollback()
        taken.join(PATIENCE)
        blocking.close()
        heard.wait_for(1)
        assert len(other.load(A)) == 2
        other.submit(A, message(2))
        store.submit(A, message(2, "too late"))
        assert isinstance(heard.wait_for_error(), LeaseLostError)


def test_two_that_open_a_session_at_once(server: Server, schema: str) -> None:
    stores = [server.store(CountingClock(), schema) for _ in range(8)]
    begun(stores[0], events=1)
    stores[0].release(A)
    outcomes: list[str] = []

    def acquire(one: PostgresqlStore) -> None:
        try:
            one.acquire(A, Recorder())
            outcomes.append("acquired")
        except SessionInUseError:
            outcomes.append("in use")

    threads = [threading.Thread(target=acquire, args=(one,)) for one in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for one in stores:
        one.close()
    assert sorted(outcomes) == ["acquired", *["in use"] * 7]


# --- broken connections -----------------------------------------------------------------------------------------------


def contents_and_events(store: Store, heard: Recorder) -> None:
    """A commit of several events that keep and drop contents; the first event is committed before."""
    with_content = store.blob_put(b"one" * 100)
    values = store.blob_put(b"two" * 100)
    store.submit(A, answered(1, with_content), waits=True)
    store.submit(A, values_kept(2, values), waits=True)
    store.retitle(A, "title")
    store.submit(A, message(3), waits=True)
    store.submit(A, dropped(4, 3))


@pytest.fixture(scope="module")
def expected() -> Store:
    store = MemoryStore(CountingClock())
    contents_and_events(store, begun(store, events=1))
    return store


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_late", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["at once", "late"])
@pytest.mark.parametrize("direction", ["to server", "to client"])
def test_commit_is_repeated_once_wherever_the_connection_breaks(
    proxy: CuttingProxy,
    cut: PostgresqlStore,
    expected: Store,
    monkeypatch: pytest.MonkeyPatch,
    direction: Direction,
    is_late: bool,
    step: int,
) -> None:
    monkeypatch.setattr(group_commit, "_RETRY_SECONDS", 0.01)
    number = 0
    while True:
        number += step if number < 60 else 60
        before, heard = proxy.cuts, begun(cut, A, events=1)
        proxy.arm(direction, number, is_late=is_late)
        contents_and_events(cut, heard)
        heard.wait_until(4, calls=2)
        assert all(isinstance(error, StoreBusyError) for error in heard.errors)
        cut.release(A)
        assert cut.load(A) == expected.load(A)
        found, wanted = cut.row(A), expected.row(A)
        assert (found.title, found.events, found.size) == (wanted.title, wanted.events, wanted.size)
        assert (found.contents_size, found.droppable_size) == (wanted.contents_size, wanted.droppable_size)
        assert cut.contents(A) == expected.contents(A)
        cut.delete(A)
        if proxy.cuts == before:
            break
    assert number > 20 or step > 1


def test_a_session_waits_while_the_database_is_away(
    proxy: CuttingProxy, cut: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_RETRY_SECONDS", 0.01)
    heard = begun(cut, events=1)
    proxy.is_down = True
    proxy.cut_all()
    cut.submit(A, message(1))
    error = heard.wait_for_error()
    assert isinstance(error, StoreBusyError)
    assert str(error).endswith("; new events are saved when the database takes them again")
    cut.submit(A, message(2))
    with pytest.raises(StoreError):
        cut.rows()
    proxy.is_down = False
    heard.wait_until(2, calls=2)
    assert len(cut.load(A)) == 3


def test_a_commit_whose_answer_is_lost_is_looked_up_though_the_connection_seems_whole(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq says this of a pipeline that the server's end interrupted."""
    transact, lost = PostgresqlCommitter._transact, [True, True]  # pyright: ignore[reportPrivateUsage]

    def losing(self: PostgresqlCommitter, *arguments: Any) -> bool:
        transact(self, *arguments)
        if lost and lost.pop():
            raise psycopg.OperationalError("cannot exit pipeline mode while busy")
        return True

    heard = begun(store, events=1)
    monkeypatch.setattr(PostgresqlCommitter, "_transact", losing)
    monkeypatch.setattr(group_commit, "_RETRY_SECONDS", 0.01)
    store.submit(A, message(1))
    heard.wait_until(1, calls=2)
    store.submit(A, message(2))
    heard.wait_until(2, calls=3)
    assert all(isinstance(error, StoreBusyError) for error in heard.errors)
    assert texts(store) == ["hello"] * 3


def test_nobody_notices_that_the_server_was_started_again_while_nothing_was_written(
    store: PostgresqlStore, server: Server
) -> None:
    heard = begun(store, events=3)
    server.stop(signal.SIGQUIT)
    server.start()
    store.submit(A, message(3))
    heard.wait_until(3)
    assert not heard.errors
    assert texts(store) == ["hello"] * 4


def test_a_session_goes_on_after_the_server_crashed(
    store: PostgresqlStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_RETRY_SECONDS", 0.01)
    heard = begun(store, events=3)
    server.stop(signal.SIGQUIT)
    try:
        store.submit(A, message(3))
        assert isinstance(heard.wait_for_error(), StoreBusyError)
    finally:
        server.start()
    heard.wait_until(3, calls=2)
    assert texts(store) == ["hello"] * 4


def test_a_database_that_is_away_at_the_start_is_named(tmp_path: Path) -> None:
    with closing(PostgresqlStore(f"postgresql://me@/gone?host={tmp_path}", CountingClock())) as opened:
        for call in (opened.rows, lambda: opened.create(row()), lambda: opened.load(A)):
            with pytest.raises(StoreError, match="postgresql://me@/gone"):
                call()


@pytest.mark.slow
def test_a_lease_that_is_taken_again_too_late_is_still_ours(
    proxy: CuttingProxy, cut: PostgresqlStore, server: Server, schema: str
) -> None:
    cut.rows()
    changed = 0
    for number in range(4, 12):
        proxy.arm("to server", number, is_late=True)
        heard = begun(cut)
        (before,) = execute(server, schema, "SELECT number FROM leases")
        assert proxy.delivered.wait(PATIENCE)
        changed += execute(server, schema, "SELECT number FROM leases") != [before]
        cut.submit(A, message(0))
        heard.wait_until(0)
        cut.release(A)
        proxy.arm("to server", 0)
        cut.delete(A)
    assert changed > 0


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lost", ["delete", "add", "archive"])
@pytest.mark.parametrize("direction", ["to server", "to client"])
def test_a_call_has_one_effect_or_an_error_wherever_the_connection_breaks(
    proxy: CuttingProxy, cut: PostgresqlStore, lost: str, direction: Direction, step: int
) -> None:
    number = 0
    while True:
        number += step
        if lost == "add":
            call = lambda: cut.add(row(), [b"content", message(0), message(1)])  # noqa: E731
        else:
            kept(cut, A, [b"content"])
            call = (lambda: cut.delete(A)) if lost == "delete" else (lambda: cut.archive(A, True))
        before = proxy.cuts
        proxy.arm(direction, number)
        try:
            call()
            succeeded = True
        except StoreError:
            succeeded = False
        is_done = proxy.cuts == before
        proxy.arm(direction, 0)
        ids = [found.session_id for found in cut.rows()]
        if succeeded:
            assert ids == ([] if lost == "delete" else [A])
            assert lost != "archive" or cut.row(A).archived
        elif ids:
            assert cut.row(A).events == 2
        if ids:
            cut.delete(A)
        if is_done:
            break
    assert number > 5


# --- addresses, versions, tenants -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "postgresql://me:word-1@db.example:5432/x?sslmode=require",
            "postgresql://me@db.example:5432/x?sslmode=require",
        ),
        ("postgres://me@one,two:5433/x?password=word-1&a=b", "postgres://me@one,two:5433/x?password=...&a=b"),
        ("postgresql://me@db/x?oauth_client_secret=word-1", "postgresql://me@db/x?oauth_client_secret=..."),
        ("postgresql://me@db/x?p%61ssword=word-1", "postgresql://..."),
        ("postgresql://me:word-1@/x?host=/run/pg", "postgresql://me@/x?host=/run/pg"),
        ("postgresql://me:wo@rd-1@db/x", "postgresql://..."),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, said: str) -> None:
    assert shown(address) == said
    assert has_password(address) or said == "postgresql://..."


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:wo@rd-1@db/x",
        "postgresql://me:wo/rd-1@db/x",
        "postgresql://me:wo:rd-1@db:x/x",
        "postgresql://me:1?rd-1@db/x",
        "postgresql://me:wo rd-1@db/x",
        "postgresql://me:rd-1",
        "postgresql://me@db/x?nonsense=rd-1",
    ],
)
def test_no_error_quotes_an_invalid_address(address: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidRequestError, StoreError)) as caught:
        open_store(tmp_path, CountingClock(), address).rows()
    assert str(caught.value) == INVALID
    assert "rd-1" not in repr(caught.value.__cause__)


def test_a_later_version_is_refused(server: Server, schema: str) -> None:
    later = (*MIGRATIONS, "CREATE TABLE later (x integer)")
    with closing(PostgresqlStore(server.address(), CountingClock(), schema=schema, migrations=later)) as newer:
        begun(newer, events=1)
        newer.release(A)
    with closing(server.store(CountingClock(), schema)) as opened, pytest.raises(StoreTooNewError, match="version 2"):
        opened.rows()


def test_tables_are_migrated_once_by_many(server: Server, schema: str) -> None:
    with closing(server.store(CountingClock(), schema)) as first:
        first.rows()
    more = (*MIGRATIONS, "CREATE TABLE later (x integer)")
    stores = [PostgresqlStore(server.address(), CountingClock(), schema=schema, migrations=more) for _ in range(4)]
    errors: list[Exception] = []

    def open_it(one: PostgresqlStore) -> None:
        try:
            one.rows()
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it, args=(one,)) for one in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for one in stores:
        one.close()
    assert errors == []
    assert execute(server, schema, "SELECT version FROM migrations ORDER BY version") == [(1,), (2,)]


def test_tenants_share_nothing(server: Server, schema: str) -> None:
    stores = [PostgresqlStore(server.address(), CountingClock(), schema=schema, tenant=name) for name in ("a", "b")]
    (digest,) = kept(stores[0], A, [b"content"])
    assert (stores[1].rows(), stores[1].contents(A)) == ([], frozenset())
    with pytest.raises(KeyError):
        stores[1].blob_get(digest)
    kept(stores[1], A, [b"content"])
    begun(stores[1], B, events=1)
    stores[0].acquire(A, Recorder())
    assert [len(one.rows()) for one in stores] == [1, 2]
    stores[1].delete(A)
    assert stores[0].blob_get(digest) == b"content"
    assert list(stores[0].owners()) == [A]
    for one in stores:
        one.close()


def test_an_administrator_may_create_the_schema(server: Server, schema: str) -> None:
    role = f"r_{schema}"
    execute(server, schema, f"CREATE ROLE {role} LOGIN")
    address = server.address().replace("rewindow@", f"{role}@")
    with closing(PostgresqlStore(address, CountingClock(), schema=schema)) as opened:
        with pytest.raises(StoreError, match="a right is missing"):
            opened.rows()
        execute(server, schema, f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
        begun(opened, events=1)
        assert opened.inspect().missing_rights == ()


def test_an_inspection_names_rights_and_settings(store: PostgresqlStore, server: Server, schema: str) -> None:
    begun(store, events=2)
    found = store.inspect()
    assert (found.missing_rights, found.notes) == ((), (inspection.NO_FSYNC.format("fsync"),))
    assert found.summary.startswith("PostgreSQL 18")
    assert store.faults(5.0) == []
    execute(server, schema, "DELETE FROM events WHERE seq = 1")
    assert store.faults(5.0) == [
        "session ses_a should have 2 events, but 1 are stored; restore the database from a copy"
    ]
    role = f"r_{schema}"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
    ):
        execute(server, schema, statement)
    address = server.address().replace("rewindow@", f"{role}@")
    with closing(PostgresqlStore(address, CountingClock(), schema=schema)) as limited:
        missing = limited.inspect().missing_rights
        assert {"INSERT on events", "UPDATE on leases", "USAGE on lease_numbers"} < set(missing)
        with pytest.raises(StoreError, match="a right is missing"):
            limited.create(row(B))


@pytest.mark.parametrize(
    ("address", "service", "told"),
    [
        ("postgresql://ann@h/d", "", "pw-4711"),
        ("postgresql://ann:own@h/d", "", "own"),
        ("postgresql://ann@h/d?service=s", "[s]\nhost=h\n", "pw-4711"),
        ("postgresql://ann@h/d?service=s", "[s]\nhost=h\n[other]\npassword=other\n", "pw-4711"),
        ("postgresql://ann@h/d", "[s]\npassword=of-service\n", "pw-4711"),
        ("postgresql://ann@h/d?service=s", "[other]\n[s]\nhost=h\npassword=of-service\n", None),
    ],
)
def test_the_password_of_the_environment_is_given_to_libpq(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, service: str, told: str | None
) -> None:
    (tmp_path / "services").write_text(service)
    monkeypatch.setenv("PGPASSWORD", "pw-4711")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    made = database._with_defaults(address)  # pyright: ignore[reportPrivateUsage] -- no server is needed
    assert conninfo_to_dict(made).get("password") == told
