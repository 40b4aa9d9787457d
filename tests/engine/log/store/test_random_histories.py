"""PostgreSQL and SQLite give the same rows, events and errors for the same operations, even if connections break."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from engine.core.errors import EngineError, StoreBusyError, StoreError
from engine.core.ids import BlobDigest, SessionId
from engine.log.events import Event
from engine.log.store import group_commit
from engine.log.store.postgresql.database import CommitLostError
from engine.log.store.postgresql.store import PostgresqlStore
from engine.log.store.schema import digest_of
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import Store
from tests.support.archives import answered, dropped, values_kept
from tests.support.cutting import CuttingProxy, Direction
from tests.support.postgresql import Server, new_schema
from tests.support.stores import A, B, Recorder, message, row

C = SessionId("ses_c")
SESSIONS = (A, B, C)
CONTENTS = [bytes([number]) * (100 * number + 1) for number in range(5)]
STEPS = 60


class StepClock:
    """Stands still within a step, so both stores see the same times."""

    def __init__(self) -> None:
        self.step = 1000.0

    def now(self) -> float:
        return self.step


@dataclass
class Host:
    """A store with what one process knows of its sessions."""

    store: Store
    heard: dict[SessionId, Recorder] = field(default_factory=dict)


Operation = Callable[[Host], object]


def event_of(random: Random, seq: int) -> Event:
    digest = digest_of(random.choice(CONTENTS))
    match random.randrange(5):
        case 0:
            return answered(seq, digest)
        case 1:
            return values_kept(seq, digest, digest_of(random.choice(CONTENTS)))
        case 2:
            return dropped(seq, random.randrange(seq + 1))
        case 3:
            return message(seq, f"see {digest} \0 é")
        case _:
            return message(seq, "text " * random.randrange(200))


def submit(session: SessionId, contents: Sequence[bytes], events: Sequence[Event]) -> Operation:
    def perform(host: Host) -> object:
        for data in contents:
            host.store.blob_put(data)
        for event in events:
            host.store.submit(session, event, waits=event is not events[-1])
        host.heard[session].wait_until(events[-1].seq)
        assert all(isinstance(error, StoreBusyError) for error in host.heard[session].errors)
        return host.store.load(session)

    return perform


def changed(session: SessionId, seq: int, change: Callable[[Store], None]) -> Operation:
    """A change of a row, and an event, because a change alone reports no commit to wait for."""

    def perform(host: Host) -> object:
        change(host.store)
        return submit(session, (), [message(seq)])(host)

    return perform


def create(session: SessionId) -> Operation:
    def perform(host: Host) -> None:
        host.store.create(row(session, f"/{session}"))
        host.heard[session] = Recorder()
        host.store.acquire(session, host.heard[session])

    return perform


def acquire(session: SessionId) -> Operation:
    def perform(host: Host) -> None:
        heard = Recorder()
        host.store.acquire(session, heard)
        host.heard[session] = heard

    return perform


def submitted(random: Random, session: SessionId, start: int) -> Operation:
    events = [event_of(random, seq) for seq in range(start, start + random.randrange(1, 4))]
    return submit(session, random.sample(CONTENTS, random.randrange(4)), events)


def retitled(random: Random, session: SessionId, start: int) -> Operation:
    title = random.choice([None, "title", "é 𝄞", ""])
    return changed(session, start, lambda store: store.retitle(session, title))


def moved(random: Random, session: SessionId, start: int) -> Operation:
    place = random.choice(["/caf\udce9", "/a", "/b"])
    return changed(session, start, lambda store: store.move(session, place, ("/c", place)))


def archived(random: Random, session: SessionId, _start: int) -> Operation:
    away = random.random() < 0.5
    return lambda host: host.store.archive(session, away)


def collected(random: Random, _session: SessionId, _start: int) -> Operation:
    age = random.randrange(40)
    return lambda host: sorted(host.store.collect(1000.0 + age).deleted)


def added(random: Random, session: SessionId, _start: int) -> Operation:
    items = [random.choice(CONTENTS), *(event_of(random, seq) for seq in range(random.randrange(4)))]
    title = random.choice([None, "imported"])
    return lambda host: host.store.add(replace(row(session, "/x"), title=title), items)


def loaded(random: Random, session: SessionId, _start: int) -> Operation:
    since, limit = random.randrange(4), random.choice([None, 0, 2])
    return lambda host: host.store.load(session, since, limit)


def listed(random: Random, _session: SessionId, _start: int) -> Operation:
    titled, limit = random.random() < 0.3, random.choice([None, 1, 2])
    which, cwds = random.choice([None, True, False]), random.choice([None, ["/a", "/caf\udce9"], []])
    return lambda host: host.store.rows(titled=titled, archived=which, cwds=cwds, limit=limit)


COMMITS = (submitted, retitled, moved)
OTHERS: tuple[Callable[[Random, SessionId, int], Operation], ...] = (
    archived,
    collected,
    added,
    loaded,
    listed,
    lambda _random, session, _start: create(session),
    lambda _random, session, _start: create(session),
    lambda _random, session, _start: acquire(session),
    lambda _random, session, _start: lambda host: host.store.release(session),
    lambda _random, session, _start: lambda host: host.store.delete(session),
    lambda _random, _session, _start: lambda host: set(host.store.owners()),
    lambda _random, _session, _start: lambda host: set(host.store.directories()),
)


def outcome(perform: Operation, host: Host) -> object:
    """What an operation returns, or the kind of its error."""
    try:
        return perform(host)
    except EngineError as error:
        return type(error)
    except KeyError as error:  # a session that this host has never acquired
        return type(error)


def broken(
    random: Random, perform: Operation, host: Host, proxy: CuttingProxy, *, is_commit: bool
) -> tuple[object, bool]:
    """The outcome with a broken connection, and whether it is that of a second try, as a user makes after an error."""
    direction: Direction = random.choice(["to client", "to server"])
    # What arrives late may take a lease after it was given back, which then lasts until it expires.
    proxy.arm(direction, random.randrange(25), is_late=is_commit and random.random() < 0.4)
    found = outcome(perform, host)
    proxy.arm(direction, 0)
    if found in (StoreError, CommitLostError):
        return outcome(perform, host), True
    return found, False


def content(store: Store, digest: BlobDigest) -> bytes | None:
    try:
        return store.blob_get(digest)
    except KeyError:
        return None


def state(store: Store) -> object:
    """All that a store says of its sessions."""
    return [
        (found, store.load(found.session_id), store.contents(found.session_id), store.droppable(found.session_id))
        for found in store.rows()
    ]


@pytest.fixture
def proxy(postgresql: Callable[[str], Server]) -> Iterator[CuttingProxy]:
    directory = Path(tempfile.mkdtemp(prefix="rewindow-cut-"))
    made = CuttingProxy(directory, postgresql("18").directory)
    yield made
    made.close()
    shutil.rmtree(directory)


@pytest.mark.parametrize("breaks", [False, True], ids=["connected", "broken"])
@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))])
def test_postgresql_and_sqlite_agree(
    proxy: CuttingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, breaks: bool
) -> None:
    monkeypatch.setattr(group_commit, "_RETRY_SECONDS", 0.01)
    random, clock, schema = Random(seed), StepClock(), new_schema()
    address = f"postgresql://rewindow@/postgres?host={proxy.directory}"
    path = tmp_path / "sessions.db"
    sqlite = [Host(SqliteStore(path, clock)) for _ in range(2)]
    postgresql = [Host(PostgresqlStore(address, clock, schema=schema)) for _ in range(2)]
    kinds: list[object] = []
    with ExitStack() as stack:
        for host in (*sqlite, *postgresql):
            stack.enter_context(closing(host.store))
        for _ in range(STEPS):
            clock.step += 1
            lengths = {found.session_id: found.events for found in sqlite[0].store.rows()}
            session, number, is_commit = random.choice(SESSIONS), random.randrange(2), random.random() < 0.5
            draw = random.choice(COMMITS if is_commit else OTHERS)
            perform = draw(random, session, lengths.get(session, 0))
            expected, is_repeated = outcome(perform, sqlite[number]), False
            if breaks:
                found, is_repeated = broken(random, perform, postgresql[number], proxy, is_commit=is_commit)
            else:
                found = outcome(perform, postgresql[number])
            kinds.append(expected)
            assert found == expected or is_repeated
            assert state(postgresql[number].store) == state(sqlite[number].store)
    # New stores, because one that puts content knows it until an event names it.
    with (
        closing(PostgresqlStore(address, clock, schema=schema)) as one,
        closing(SqliteStore(path, clock)) as other,
    ):
        digests = [digest_of(data) for data in CONTENTS]
        assert [content(one, each) for each in digests] == [content(other, each) for each in digests]
    assert any(isinstance(kind, list) for kind in kinds)
    assert any(isinstance(kind, type) for kind in kinds)
