"""The stores that implement `log.store_protocol.Store`, one row each; the first is the default.

A store is a module and a row in STORES. The program that makes a host chooses one by name. There is no setting for it:
the other store forgets its sessions when the process ends, and users expect to resume theirs. Must import nothing slow;
a maker imports its store when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...core.clock import Clock
from ...core.errors import InvalidRequestError
from ..store_protocol import Store

DATABASE: Final = "sessions.db"
"""The file of the default store in the state directory."""


def _sqlite(path: Path, clock: Clock) -> Store:
    from .sqlite import SqliteStore  # here, so that only a program that opens it pays for it

    return SqliteStore(path, clock)


def _memory(_path: Path, clock: Clock) -> Store:
    from .memory import MemoryStore  # here, as above

    return MemoryStore(clock)


Maker = Callable[[Path, Clock], Store]

STORES: Final[tuple[tuple[str, Maker], ...]] = (("sqlite", _sqlite), ("memory", _memory))
"""Name and maker of each store. A maker takes the database's path (unused by `memory`) and performs no I/O."""
DEFAULT: Final = STORES[0][0]


def open_store(state_dir: Path, clock: Clock, kind: str = DEFAULT) -> Store:
    """Return the store called `kind`, with its database in the state directory; performs no I/O.

    Raises:
        InvalidRequestError: no row of STORES has that name.
    """
    makers: dict[str, Maker] = dict(STORES)
    make = makers.get(kind)
    if make is None:
        raise InvalidRequestError(f"there is no store {kind!r}; use one of {', '.join(makers)}")
    return make(state_dir / DATABASE, clock)
