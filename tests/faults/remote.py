"""The same world with its sessions in PostgreSQL: connections break and the server crashes, besides kills.

The server does not wait for its disk, so no power loss is simulated. Its crash keeps what it has committed.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from tests.faults.filesystem import Mounted
from tests.faults.judge import Message
from tests.faults.reading import unpacked
from tests.faults.world import SECONDS, World
from tests.support.postgresql import Server

_T = TypeVar("_T")
_MOST_SECONDS = 0.4
_LEASE_SECONDS = 20.0
"""More than the 10 s after which another host may have the session, because machines that run these tests are busy."""


def _after_lease(act: Callable[[], _T], is_early: Callable[[_T], bool]) -> _T:
    deadline = time.monotonic() + _LEASE_SECONDS
    while True:
        found = act()
        if not is_early(found) or time.monotonic() > deadline:
            return found
        time.sleep(1)


class RemoteWorld(World):
    """A session in a database of its own."""

    has_power_losses = False

    def __init__(self, server: Server, base: Path, chance: random.Random, disk: Mounted | None) -> None:
        super().__init__(base, chance, disk)
        self.server = server
        self.address = server.new_database()
        self.environ["REWINDOW_STORE"] = self.address

    def logs(self) -> tuple[str, dict[str, list[Message]]]:
        found: dict[str, list[Message]] = {}
        for session, data in self.rows("SELECT session, json FROM rewindow.events ORDER BY session, seq"):
            found.setdefault(session, []).append(json.loads(data))
        return "ok", found

    def stored(self) -> Mapping[str, bytes]:
        rows = self.rows("SELECT digest, data FROM rewindow.blobs UNION ALL SELECT session, json FROM rewindow.events")
        found = {f"row {number} of {name}": unpacked(data) for number, (name, data) in enumerate(rows)}
        return {**super().stored(), **found}

    def load(self) -> Message:
        """Wait for the end of the lease, too, if the host was killed."""
        return _after_lease(super().load, lambda response: "in use" in str(response.get("error")))

    def program(self, *arguments: str, patience: float = SECONDS) -> int | None:
        """Wait for the end of the lease, too, if the program before was killed."""
        run = partial(super().program, *arguments, patience=patience)
        return _after_lease(run, lambda code: bool(code) and b"in use" in self.errors[-1])

    def rows(self, query: str) -> list[Any]:
        with psycopg.connect(self.address) as connection:
            return connection.execute(query.encode()).fetchall()

    def drop(self) -> None:
        """End all connections."""
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        self.rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")

    def crash(self) -> None:
        """End the server without a checkpoint, and start it again."""
        self.server.stop(signal.SIGQUIT)
        time.sleep(self.chance.uniform(0, _MOST_SECONDS))  # the time without a server is the fault
        self.server.start()
