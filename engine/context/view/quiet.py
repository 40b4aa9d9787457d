"""Whether there is anything to enforce: known from what each property watches, so that a model call costs no pass.

In a log that was only appended to, orderly, nothing offends; a bad condensation or an import may bring what does. So
the enforced reading is nearly always the entries themselves, and that is all a session has to know before each call,
however long it has become. Entries are watched when somebody asks, each once, so that appending costs nothing. Owned by
`Window`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ...log.events import Event
from .properties import Property, Watch, Watcher

_NONE: Final = -1


class Quiet:
    """Watches a sequence of entries that only grows while its generation stays the same."""

    __slots__ = ("_generation", "_properties", "_seen", "_watchers", "_watches")

    def __init__(self, properties: Iterable[Property]) -> None:
        self._properties = tuple(properties)
        self._generation = _NONE
        self._seen = 0
        self._watches: tuple[Watch, ...] = ()
        self._watchers: dict[type[Event], list[Watcher]] = {}

    def holds(self, entries: Sequence[Event], generation: int, open_run: bool) -> bool:
        """Whether every property holds of `entries` as they are. O(entries that are new since the last call).

        May say no where they do; then enforcing finds out. `open_run` as for `enforce`.
        """
        if generation != self._generation:
            self._begin(generation)
        watchers = self._watchers
        for position in range(self._seen, len(entries)):
            entry = entries[position]
            for watcher in watchers.get(type(entry), ()):
                watcher(entry)
        self._seen = len(entries)
        return all(watch.is_quiet(open_run) for watch in self._watches)

    def _begin(self, generation: int) -> None:
        self._generation = generation
        self._seen = 0
        self._watches = tuple(each.watch() for each in self._properties)
        self._watchers = {}
        for watch in self._watches:
            for kind, watcher in watch.watchers().items():
                self._watchers.setdefault(kind, []).append(watcher)
