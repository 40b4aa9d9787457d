"""The stores that implement `log.store_protocol.Store`, one row each; the first is the default.

A store is a module and a row in STORES, or has an address: `postgresql://...`. The setting `store` takes the default
and addresses. The store in memory is for programs alone: it forgets its sessions when the process ends, and users
expect to resume theirs. Must import nothing slow; a maker imports its store when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ...core.clock import Clock
from ...core.errors import InvalidRequestError
from ...core.store_address import is_address
from ..store_protocol import Store

NO_LIBRARY: Final = "a store in PostgreSQL needs psycopg; install rewindow[postgresql]"
DATABASE: Final = "sessions.db"
"""The file of the default store in the state directory."""


def _sqlite(path: Path, clock: Clock) -> Store:
    from .sqlite import SqliteStore  # here, so that only a program that opens it pays for it

    return SqliteStore(path, clock)


def _memory(_path: Path, clock: Clock) -> Store:
    from .memory import MemoryStore  # here, as above

    return MemoryStore(clock)


def _postgresql(address: str, clock: Clock, tenant: str) -> Store:
    if find_spec("psycopg") is None:
        raise InvalidRequestError(NO_LIBRARY)
    from .postgresql.store import PostgresqlStore  # here, as above

    return PostgresqlStore(address, clock, tenant=tenant)


Maker = Callable[[Path, Clock], Store]

STORES: Final[tuple[tuple[str, Maker], ...]] = (("sqlite", _sqlite), ("memory", _memory))
"""Name and maker of each store. A maker takes the database's path (unused by `memory`) and performs no I/O."""
DEFAULT: Final = STORES[0][0]


def open_store(state_dir: Path, clock: Clock, kind: str = DEFAULT, tenant: str = "") -> Store:
    """Return the store called `kind`, with its database in the state directory or at its address; performs no I/O.

    Only a store with an address has tenants. Each sees its own sessions.

    Raises:
        InvalidRequestError: no row of STORES has that name, an address is invalid, or its library is not installed.
    """
    if is_address(kind):
        return _postgresql(kind, clock, tenant)
    makers: dict[str, Maker] = dict(STORES)
    make = makers.get(kind)
    if make is None:
        raise InvalidRequestError(f"there is no store {kind!r}; use one of {', '.join(makers)}, or postgresql://...")
    return make(state_dir / DATABASE, clock)
