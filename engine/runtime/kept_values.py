"""Which kept values stand for what a statement left, where it does not run again or came out differently: a fold.

A name's values are kept in groups that share objects, and a group counts for a name until the name is kept anew. So a
name is never set alone: with it come all names that are there and whose newest copy is in the same group, because a
copy of a shared object under one name would no longer be the object under the other. Must not know how values are kept
or loaded. Used by `rebuild`, one for each attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from ..log.past import PastExecution, PastRebuild, PastValues

NOT_KEPT: Final = "its process ended before it was kept"
EARLIER: Final = "its log is of an earlier version, which kept none"


class Wanted(Struct, frozen=True, kw_only=True):
    """What to do to a namespace: names to set, by the group they come from, names to delete, and those without a copy.

    `without` has the reason by name, a phrase.
    """

    groups: dict[PastValues, tuple[str, ...]] = field(default_factory=dict[PastValues, tuple[str, ...]])
    delete: tuple[str, ...] = ()
    without: dict[str, str] = field(default_factory=dict[str, str])


class KeptValues:
    """The values that are kept of each name as they were after the last step that was taken."""

    def __init__(self) -> None:
        self._newest: dict[str, PastValues] = {}
        self._unkept: dict[str, str] = {}
        self._present: set[str] = set()

    def take(self, past: PastExecution) -> None:
        """The next step."""
        reason = EARLIER if past.revisions is None else NOT_KEPT
        for name in past.bound:
            self._newest.pop(name, None)
            self._unkept[name] = reason
        self._take_kept(past.kept, past.unkept)
        self._present.update(past.bound)
        self._present.difference_update(past.unbound)

    def take_rebuild(self, past: PastRebuild) -> None:
        """What an earlier rebuild has left where it had no copy."""
        for name in past.anew:
            self._newest.pop(name, None)
            self._unkept[name] = NOT_KEPT
        self._take_kept(past.kept, past.unkept)
        self._present.update(past.anew)
        self._present.difference_update(past.absent)

    def _take_kept(self, kept: Iterable[PastValues], unkept: Mapping[str, str]) -> None:
        for group in kept:
            for name in group.names:
                self._newest[name] = group
                self._unkept.pop(name, None)
        for name, reason in unkept.items():
            self._newest.pop(name, None)
            self._unkept[name] = reason

    def _standing(self, group: PastValues) -> tuple[str, ...]:
        """The names that the group counts for; one that was deleted since is not to be there again."""
        return tuple(name for name in group.names if self._newest.get(name) is group and name in self._present)

    def wanted(self, names: Iterable[str], found: Collection[str] = ()) -> Wanted:
        """What brings `names` back. `found` are known to be as they were, and are set only where others need it."""
        chosen = set(names)
        there = [name for name in chosen if name in self._present]
        groups = {self._newest[name] for name in there if name not in found and name in self._newest}
        return Wanted(
            groups={group: self._standing(group) for group in groups},
            delete=tuple(sorted(chosen.difference(self._present, found))),
            without={
                name: self._unkept.get(name, NOT_KEPT)
                for name in sorted(there)
                if name not in found and name not in self._newest
            },
        )
