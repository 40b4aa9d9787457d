"""Which names share mutable objects: found by comparing the ids of the parts of their values.

What is kept under a name of its own, a node or a function or class that the namespace binds, joins nobody who holds it.
A class that is bound nowhere any more is kept with each of its instances, and joins them. Must not know how values are
kept. Used by `namespace`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import compress
from operator import not_
from typing import Final

from ....files.node import NodeBase
from ..contents import behind, parts_of
from ..keeping.identity import BoundNames
from .known import Known

_REACHED: Final = 1_000_000
"""Objects looked at to find out what a large value shares."""

_FEW: Final = 16
"""Names whose groups are found by looking at all names for each; the table of their parts costs more than that."""


def sharing_with(parts: frozenset[int], shares: Mapping[str, frozenset[int]]) -> list[str]:
    """Names of which some part is one of `parts`. The loop over all names runs in C."""
    return list(compress(shares, map(not_, map(parts.isdisjoint, shares.values()))))


def groups_of(names: Iterable[str], shares: Mapping[str, frozenset[int]]) -> tuple[tuple[str, ...], ...]:
    """`names` with all that share parts with them, over any number of steps, divided so that groups share nothing.

    Args:
        names: where to begin; each must be in `shares`, or is a group of its own.
        shares: the parts of each name that has any.
    """
    wanted = sorted(set(names))
    near = _scanned(shares) if len(wanted) <= _FEW else _indexed(shares)
    groups: list[tuple[str, ...]] = []
    found: set[str] = set()
    for name in wanted:
        if name not in found:
            group = _group(name, shares, near)
            found |= group
            groups.append(tuple(sorted(group)))
    return tuple(groups)


def _group(
    name: str, shares: Mapping[str, frozenset[int]], near: Callable[[frozenset[int]], Iterable[str]]
) -> set[str]:
    group = {name}
    parts = shares.get(name, frozenset[int]())
    while parts:
        joined = set(near(parts)) - group
        parts = frozenset[int]().union(*(shares[other] for other in joined))
        group |= joined
    return group


def _scanned(shares: Mapping[str, frozenset[int]]) -> Callable[[frozenset[int]], Iterable[str]]:
    """Who has some of these parts, by looking at all names: quick for one group, and quadratic for all."""
    return lambda parts: sharing_with(parts, shares)


def _indexed(shares: Mapping[str, frozenset[int]]) -> Callable[[frozenset[int]], Iterable[str]]:
    """The same by a table of all parts, in which each part is looked up once."""
    holders: dict[int, list[str]] = {}
    for name, parts in shares.items():
        for part in parts:
            holders.setdefault(part, []).append(name)
    return lambda parts: (name for part in parts for name in holders.pop(part, ()))


class Neighbours:
    """Which names may share parts with a value too large to be walked whole.

    Whatever became a part of it, or was taken from it, did so in a statement that touched both names, or the large one
    and another that is a neighbour already. So who was never touched together with it shares nothing with it.
    """

    def __init__(self) -> None:
        self._of: dict[str, set[str]] = {}
        self._together: set[str] = set()

    def begin(self, names: Iterable[str]) -> None:
        """These names are touched by one statement."""
        self._together = set(names)
        for large, near in self._of.items():
            if large in self._together or not near.isdisjoint(self._together):
                near.update(self._together)

    def note(self, name: str, *, cut: bool) -> None:
        """Whether the value of the name is too large now."""
        if cut and name not in self._of:
            self._of[name] = set(self._together)
        elif not cut and self._of:
            self._of.pop(name, None)

    def forget(self, name: str) -> None:
        self._of.pop(name, None)

    def of(self, name: str) -> set[str]:
        return self._of.get(name, set())

    def around(self, names: set[str]) -> set[str]:
        """Large values near to `names`, and what is near to those of them that are large."""
        found = {large for large, near in self._of.items() if not near.isdisjoint(names)}
        return found.union(*(self._of[name] for name in names & self._of.keys()))

    def around_any(self, names: Collection[str]) -> list[str]:
        """Large values that are among `names`, or near to one of them."""
        return [large for large, near in self._of.items() if large in names or not near.isdisjoint(names)]


def kept_groups(
    names: Collection[str],
    known: Mapping[str, Known],
    shares: Mapping[str, frozenset[int]],
    apart: Mapping[str, Known],
    neighbours: Neighbours,
    namespace: Mapping[str, object],
) -> tuple[tuple[str, ...], ...]:
    """`names`, with all that must be kept together with them, in groups that share nothing.

    Args:
        known: what is known of every name.
        shares: the parts of each that has any.
        apart: those of which `may_be_apart` is true.
    """
    if not any(name in shares for name in names):  # which is said without a look at all other names
        return tuple((name,) for name in sorted(set(names)))
    is_apart = _kept_apart(namespace)
    kept = {**shares, **{name: _kept_parts(each, is_apart) for name, each in apart.items()}}
    for name in neighbours.around_any(names):
        # Quicker than a walk, but no more than ids. What is larger still is too large to be kept, with whatever.
        if name in kept:
            kept[name] |= behind(known[name].reference, _REACHED)
    return groups_of(names, kept)


def may_be_apart(known: Known) -> bool:
    """Whether the value may be kept with other parts than are known: some under a name of its own, or further ones."""
    return (
        known.is_open
        or bool(known.contents.named or known.contents.classes)
        or NodeBase in type(known.reference).__mro__
    )


def _kept_apart(namespace: Mapping[str, object]) -> Callable[[object], bool]:
    """Whether a node, function or class is kept under a name of its own, and not with what holds it."""
    bound = BoundNames(namespace)

    def apart(value: object) -> bool:
        return NodeBase in type(value).__mro__ or bound.path_of(value) is not None

    return apart


def _kept_parts(known: Known, apart: Callable[[object], bool]) -> frozenset[int]:
    if NodeBase in type(known.reference).__mro__:
        return frozenset()
    if known.is_open:
        return known.contents.parts | behind(known.reference, _REACHED)
    if known.contents.named or not all(map(apart, known.contents.classes)):
        return parts_of(known.reference, apart)
    return known.contents.parts
