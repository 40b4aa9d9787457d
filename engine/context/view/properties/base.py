"""What a property of the View is: a rule about which gaps are safe, and what must go where it does not hold.

A property never knows another property. The View asks each for four things: recorders (its memory of the log),
closers (its share of the indices, maintained while appending), an enforcement (its share of what is left out) and a
watch (whether there is anything to leave out at all, known without a pass over the entries). Recorders, closers and
watches are tables by kind, so that an event costs nothing where it does not matter. Adding a property is a file beside
this one and a line in `PROPERTIES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from ....log.events import Event
from ..rule import BoundaryRule

Key = TypeVar("Key", bound=Hashable)
LOOKED_FOR: Final = 8
"""So many keys are looked for, each with a pass over the sequence; then all of them are indexed."""

Recorder = Callable[[Any], None]
"""Called with every event of one kind on the log, in order; not with the calls of statements and their results."""

Closed = tuple[int, int]
"""The first and the last of neighbouring gaps that are closed."""

Closer = Callable[[int, Any], Closed | None]
"""Called with every entry of one kind and its position, in order; returns the gaps that it closes for good, if any.

Gap `i` is the one before entry `i`; the entry adds the gap after it, which may be closed at once. The last one closed
is the gap before that entry or the gap after it. A gap may be closed by several entries; none is ever opened again.
"""


class Enforcement(Protocol):
    """One property's part in finding the greatest set of entries in which all properties hold.

    Both methods name positions that have to go; naming one twice, or one that is gone, is harmless. Over a whole
    enforcement the positions named must be linear in the entries.
    """

    def offending(self) -> Iterable[int]:
        """What has to go in the sequence as it is."""
        ...

    def after(self, position: int) -> Iterable[int]:
        """What has to go because `position` went. Called once for each, whichever property named it."""
        ...


Watcher = Callable[[Any], None]
"""Called with every entry of one kind, in order; sooner or later than the closers of the same entry."""


class Watch(Protocol):
    """What a property keeps of a growing sequence of entries to know that it has nothing to leave out of it."""

    def watchers(self) -> Mapping[type[Event], Watcher]:
        """What keeps it, by kind of entry; empty where nothing can offend."""
        ...

    def is_quiet(self, open_run: bool) -> bool:
        """In O(1), whether the enforcement over the entries so far would name none as offending.

        May say no where it would not either; never yes where it would.
        """
        ...


class Property(Protocol):
    """One rule, with its memory of one log."""

    name: ClassVar[str]

    def __init__(self, rule: BoundaryRule) -> None: ...

    def recorders(self) -> Mapping[type[Event], Recorder]:
        """What keeps this property's memory of the log, by kind of event; empty where it needs none."""
        ...

    def closers(self) -> Mapping[type[Event], Closer]:
        """Closers for a new sequence, by kind of entry and with one state; empty where the property closes no gap."""
        ...

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        """The enforcement over `entries`. With `open_run`, calls that the present run waits for count as answered."""
        ...

    def watch(self) -> Watch:
        """A watch over a new sequence. Every entry of it has been recorded before it is watched."""
        ...


class Positions(Generic[Key]):
    """Where each key is. The first few keys are looked for, because that is faster than finding all of them.

    All of them are chains of positions in one list of integers, because a list for each key slows down the collector.
    """

    __slots__ = ("_before", "_keys", "_last", "_popped")

    def __init__(self, keys: Sequence[Key | None]) -> None:
        self._keys = keys
        self._popped: set[Key] = set()
        self._last: dict[Key, int] | None = None
        self._before: list[int] = []

    def pop(self, key: Key) -> Iterator[int]:
        """The positions of `key` in any order; none when they were taken before."""
        if key in self._popped:
            return
        self._popped.add(key)
        if self._last is None:
            if len(self._popped) <= LOOKED_FOR:
                yield from self._look_for(key)
                return
            self._last = self._find_all()
        position = self._last.get(key, -1)
        while position >= 0:
            yield position
            position = self._before[position]

    def _look_for(self, key: Key) -> Iterator[int]:
        position = -1
        with suppress(ValueError):
            while True:
                position = self._keys.index(key, position + 1)
                yield position

    def _find_all(self) -> dict[Key, int]:
        last: dict[Key, int] = {}
        self._before = [-1] * len(self._keys)
        for position, key in enumerate(self._keys):
            if key is not None:
                self._before[position] = last.get(key, -1)
                last[key] = position
        return last


class AllOrNothing(Generic[Key]):
    """An enforcement of units that stay whole or are removed: each as soon as one of its members is missing.

    Args:
        units: the unit that each position belongs to, or None.
        sizes: how many members each unit has on the log.
    """

    def __init__(self, units: Sequence[Key | None], sizes: Mapping[Key, int]) -> None:
        self._units = units
        self._sizes = sizes
        self._members = Positions(units)

    def offending(self) -> Iterable[int]:
        for unit, count in Counter(self._units).items():
            if unit is not None and count < self._sizes[unit]:
                yield from self._members.pop(unit)

    def after(self, position: int) -> Iterable[int]:
        unit = self._units[position]
        return () if unit is None else self._members.pop(unit)


class QuietUntil:
    """The watch of a property that one entry can break: quiet until the first of which `offends` is true, by kind."""

    def __init__(self, offends: Mapping[type[Event], Callable[[Any], bool]]) -> None:
        self._offends = offends
        self._is_quiet = True

    def watchers(self) -> Mapping[type[Event], Watcher]:
        return dict.fromkeys(self._offends, self._watched)

    def is_quiet(self, open_run: bool) -> bool:
        del open_run
        return self._is_quiet

    def _watched(self, entry: Event) -> None:
        if self._offends[type(entry)](entry):
            self._is_quiet = False


class WholeUnits(Generic[Key]):
    """The watch of units that stay whole: quiet while none has a member on the log that is not among the entries.

    An entry that is watched late may find its unit larger than what was watched of it. Then the unit is short until its
    other entries come, and they do, before anybody asks: so in the end it is short only where a member is missing.

    Args:
        unit_of: the unit that an entry belongs to, or None.
        sizes: how many members each unit has on the log; may grow.
        kinds: of entries that belong to units.
    """

    def __init__(
        self, unit_of: Callable[[Any], Key | None], sizes: Mapping[Key, int], kinds: Sequence[type[Event]]
    ) -> None:
        self._unit_of = unit_of
        self._sizes = sizes
        self._kinds = kinds
        self._found: dict[Key, int] = {}
        self._short: set[Key] = set()

    def watchers(self) -> Mapping[type[Event], Watcher]:
        return dict.fromkeys(self._kinds, self._watched)

    def is_quiet(self, open_run: bool) -> bool:
        del open_run
        return not self._short

    def _watched(self, entry: Event) -> None:
        unit = self._unit_of(entry)
        if unit is not None:
            found = self._found[unit] = self._found.get(unit, 0) + 1
            if found < self._sizes[unit]:
                self._short.add(unit)
            else:
                self._short.discard(unit)
