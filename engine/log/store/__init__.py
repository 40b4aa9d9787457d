"""The implementations of `log.store_protocol.Store`, one row each; the first is the default.

A backend is a module and a row in STORES. Whoever makes a host chooses by name; there is no setting for it, because the
only other backend today forgets its sessions at the end of the process, which no user can want of an agent that
promises to resume them. Must import nothing that costs time: a maker imports its backend when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...core.clock import Clock
from ...core.errors import InvalidRequestError
from ..store_protocol import Store

DATABASE: Final = "sessions.db"
"""The file of the default backend in the state directory."""


def _sqlite(path: Path, clock: Clock) -> Store:
    from .sqlite import SqliteStore  # for start-up: paid by whoever opens it

    return SqliteStore(path, clock)


def _memory(_path: Path, clock: Clock) -> Store:
    from .memory import MemoryStore  # for start-up, as above

    return MemoryStore(clock)


Maker = Callable[[Path, Clock], Store]

STORES: Final[tuple[tuple[str, Maker], ...]] = (("sqlite", _sqlite), ("memory", _memory))
"""Name and maker of each backend. A maker takes the database's path (unused by `memory`) and performs no I/O."""
DEFAULT: Final = STORES[0][0]


def open_store(state_dir: Path, clock: Clock, kind: str = DEFAULT) -> Store:
    """The backend called `kind`, whose database is DATABASE in the user's state directory; performs no I/O.

    Raises:
        InvalidRequestError: no row of STORES has that name.
    """
    makers: dict[str, Maker] = dict(STORES)
    make = makers.get(kind)
    if make is None:
        raise InvalidRequestError(f"no store is called {kind!r}; there is {', '.join(makers)}")
    return make(state_dir / DATABASE, clock)
