"""Servers of PostgreSQL that fail for real: a full disk, restarts and ended connections amid the commits of a store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import psutil
import psycopg
import pytest

from engine.core.errors import StoreBusyError
from engine.core.ids import SessionId
from engine.log.store import group_commit
from engine.log.store.postgresql.store import PostgresqlStore
from tests.support.archives import answered
from tests.support.postgresql import Server, new_schema
from tests.support.stores import PATIENCE, ROOT, A, CountingClock, Recorder, begun, message, texts

DISK_FULL = "the server's disk is full; free some space there"


@pytest.fixture
def server(postgresql: Callable[[str], Server]) -> Server:
    return postgresql("18")


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "_RETRY_SECONDS", 0.02)


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A directory of the server's user on a file system of its own; skips where that cannot be mounted."""
    place = Path(tempfile.mkdtemp(prefix="rewindow-full-"))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], capture_output=True).returncode:
        place.rmdir()
        pytest.skip("mounting a small file system needs root")
    try:
        os.chown(place, 65_534, 65_534)
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
        place.rmdir()


def execute(server: Server, statement: str) -> None:
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(statement.encode())


def test_changes_wait_while_the_servers_disk_is_full(server: Server) -> None:
    schema, name = new_schema(), f"small_{os.getpid()}"
    with small_disk("24m") as place, closing(server.store(CountingClock(), schema)) as store:
        heard = begun(store, events=1)
        execute(server, f"CREATE TABLESPACE {name} LOCATION '{place}'")
        try:
            execute(server, f"ALTER TABLE {schema}.blobs SET TABLESPACE {name}")
            ballast = place / "ballast"
            with ballast.open("wb") as file:
                while _wrote(file.fileno(), b"\0" * 65_536):
                    pass
            data = Random(1).randbytes(1 << 20)
            digest = store.blob_put(data)
            store.submit(A, answered(1, digest))
            error = heard.wait_for_error()
            assert isinstance(error, StoreBusyError)
            assert DISK_FULL in str(error)
            assert len(heard.seqs) == 1
            assert len(store.load(A, limit=1)) == 1  # it can still be read
            ballast.unlink()
            heard.wait_until(1, calls=2)
            assert len(store.load(A)) == 2
            assert store.blob_get(digest) == data
        finally:
            execute(server, f"ALTER TABLE {schema}.blobs SET TABLESPACE pg_default")
            execute(server, f"DROP TABLESPACE {name}")


def _wrote(descriptor: int, data: bytes) -> bool:
    try:
        os.write(descriptor, data)
    except OSError:
        return False
    return True


class Writing(threading.Thread):
    """Commits the events of one session, each after its predecessor or a few at once, until `ending` is set."""

    def __init__(self, store: PostgresqlStore, session: SessionId, ending: threading.Event) -> None:
        super().__init__()
        self.store = store
        self.session = session
        self.heard: Recorder = begun(store, session, events=1)
        self.submitted = 1
        self._ending = ending
        self._random = Random(session)

    def run(self) -> None:
        while not self._ending.is_set():
            for _ in range(self._random.randrange(1, 4)):
                self.store.submit(self.session, message(self.submitted, f"{self.session} {self.submitted}"))
                self.submitted += 1
            if self._random.random() < 0.5:
                self._ending.wait(0.002)
            else:
                self.heard.wait_until(self.submitted - 1)


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_nothing_is_lost_or_doubled_when_the_server_ends_amid_commits(server: Server, kills: int) -> None:
    random, ending, schema = Random(kills), threading.Event(), new_schema()
    with closing(server.store(CountingClock(), schema)) as store:
        writers = [Writing(store, SessionId(f"ses_{number}"), ending) for number in range(4)]
        for writer in writers:
            writer.start()
        try:
            for number in range(kills):
                ending.wait(random.uniform(0.01, 0.2))
                if number % 3:
                    execute(
                        server,
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE pid <> pg_backend_pid() AND application_name = 'rewindow'",
                    )
                else:
                    server.stop(random.choice([signal.SIGQUIT, signal.SIGINT, signal.SIGKILL]))
                    ending.wait(random.uniform(0, 0.2))
                    server.start()
        finally:
            ending.set()
            for writer in writers:
                writer.join(PATIENCE)
        for writer in writers:
            writer.heard.wait_until(writer.submitted - 1)
            assert all(isinstance(error, StoreBusyError) for error in writer.heard.errors)
            session = writer.session
            assert texts(store, session) == ["hello", *(f"{session} {seq}" for seq in range(1, writer.submitted))]
        assert any(writer.heard.errors for writer in writers)


@pytest.mark.slow  # it starts a server of its own
def test_a_server_ends_with_a_test_process_that_is_killed() -> None:
    source = (
        "from tests.support.postgresql import running\n"
        "with running('18') as server:\n"
        "    print(server.directory, flush=True)\n"
        "    input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", source], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    directory = Path(process.stdout.readline().strip())
    servers = [psutil.Process(int((directory / "data/postmaster.pid").read_text().split()[0]))]
    process.kill()
    process.communicate(timeout=PATIENCE)
    gone, left = psutil.wait_procs(servers, timeout=PATIENCE)
    assert (len(gone), left) == (1, [])
    deadline = time.monotonic() + PATIENCE
    while directory.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # the watcher tells nobody
