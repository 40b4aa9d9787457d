"""The implementations of `ports.Store`, in one declared order; the first is the default.

Must import nothing that costs time: a process that only asks for the list pays for no database. Called by whoever
assembles a process, and by the contract tests, which run over every entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from ..ports import Clock, Store


def _sqlite(path: Path, clock: Clock) -> Store:
    from .sqlite import SqliteStore

    return SqliteStore(path, clock)


def _memory(_path: Path, clock: Clock) -> Store:
    from .memory import MemoryStore

    return MemoryStore(clock)


STORES: tuple[tuple[str, Callable[[Path, Clock], Store]], ...] = (("sqlite", _sqlite), ("memory", _memory))
"""Name and maker of each kind. A maker takes the database's path (unused by `memory`) and performs no I/O."""


DATABASE: Final = "sessions.db"
"""What the default kind is called in the state directory."""


def open_store(state_dir: Path, clock: Clock) -> Store:
    """The default kind, as DATABASE in the user's state directory; performs no I/O."""
    _, make = STORES[0]
    return make(state_dir / DATABASE, clock)
