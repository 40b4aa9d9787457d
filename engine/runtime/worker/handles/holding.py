"""Which names hold handles, and what those have held until now: in it are the handles that may be out of reach.

Must not know nodes: a name's parts are ids of objects. Owned by `namespace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..contents import Contents


class Holding:
    """The names of one namespace, of which `shares` has the parts. `names` are those that hold handles now."""

    def __init__(self, shares: Mapping[str, frozenset[int]]) -> None:
        self._shares = shares
        self.names: set[str] = set()
        self._lost: set[int] = set()

    def note(self, name: str, before: frozenset[int], now: Contents) -> None:
        """What a name holds now, and which parts it had before."""
        if name in self.names:
            self._lost |= before - now.parts
        (self.names.add if now.handles else self.names.discard)(name)

    def forget(self, name: str, before: frozenset[int]) -> None:
        """The name is gone; which parts it had."""
        if name in self.names:
            self._lost |= before
            self.names.discard(name)

    def unheld(self, made: Iterable[int]) -> set[int]:
        """What names have lost since this was last asked, and what was `made`, but for what a name holds now.

        A handle among it is out of the namespace's reach, or held in a way that nobody follows: under a name of two
        underscores, by a thread, by a library.
        """
        lost, self._lost = self._lost.union(made), set()
        if lost:
            for name in self.names:
                lost -= lost & self._shares.get(name, frozenset())
        return lost
