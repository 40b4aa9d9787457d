"""What a statement changed in the namespace: added, rebound, mutated and deleted names, and those nobody can tell of.

An identity scan over all names finds what was bound anew. What was changed in place is found by walking over the values
that the statement may have touched, and over those that share mutable parts with one that came out differently. The
cost is a pointer comparison per name plus the touched content. Used by `executor`; `preserve` asks it for groups.

Why every change is found: a statement reaches an object that was there before only through a name that it touches
(`touched`), because what it does not name it cannot follow. Of each touched value the parts are known from before. If
none of them has changed, and none has come or gone, no part of another name has changed by way of it. Else every name
that has one of these parts is walked too, so one round is enough. What a statement reaches by other ways (a thread of
an earlier one, a library's own state) shows with the next statement that touches the name.

Where content cannot be told (an open file, a value too large), a name whose known part is unchanged is "unknown" if the
statement may have changed the rest: it used the name otherwise than to read (`reading`), or the name shares such a part
with one that it did. Modules, builtins and the classes of libraries are what they are called, and never unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import compress, repeat
from operator import is_not
from typing import Final

from ..cutting import ELLIPSIS
from ..execution import ChangeInfo, NamespaceDiff, TypeInfo
from ..nodes.base import NodeBase
from .contents import Allowance, Contents, contents_again, contents_of
from .keeping.identity import BoundNames
from .reading import Uses, uses_in
from .sharing import Neighbours, groups_of, kept_parts, sharing_with
from .summaries import ATOMS, FIXED, describe
from .touched import bound_in, loaded_in, names_in, reachable

_MISSING: Final = object()
_UNSEEN: Final = object()
_ALLOWANCE: Final = 200_000
"""Objects walked for one statement at most: about half a second."""
_INTERRUPTED: Final = "its examination was interrupted"


@dataclass(frozen=True, slots=True)
class _Known:
    """What was last seen under a name. `reference` is dropped before a statement that binds or deletes the name.

    A digest that is empty is that of nothing: the value was not walked.
    """

    identity: int
    reference: object
    info: TypeInfo
    contents: Contents

    @property
    def digest(self) -> str | None:
        """What the log gets: None where it does not cover all."""
        return None if self.contents.gap else self.contents.digest


class _Found:
    """The difference as far as it is known."""

    __slots__ = (
        "added",
        "allowance",
        "changed",
        "deleted",
        "digests",
        "dirty",
        "examined",
        "loose",
        "spread",
        "unknown",
    )

    def __init__(self) -> None:
        self.allowance = Allowance(_ALLOWANCE)
        self.added: dict[str, TypeInfo] = {}
        self.changed: dict[str, ChangeInfo] = {}
        self.unknown: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.digests: dict[str, str] = {}
        self.examined: set[str] = set()
        self.dirty: set[int] = set()
        """Parts that have changed, or may have, or are no longer where they were."""
        self.loose: set[int] = set()
        """Parts that cannot be told, and may have changed."""
        self.spread: set[str] = set()
        """Names of which that holds for some part."""

    def diff(self) -> NamespaceDiff:
        return NamespaceDiff(
            added=self.added,
            changed=self.changed,
            deleted=tuple(sorted(self.deleted)),
            digests=self.digests,
            unknown={name: why for name, why in self.unknown.items() if name not in self.changed},
            deep=True,
        )


class NamespaceWatch:
    """Follows one namespace from statement to statement.

    Attributes:
        diff: the difference that the last statement made, as far as it is known where `after` was interrupted.
    """

    def __init__(self, namespace: dict[str, object], injected: Collection[str]) -> None:
        self._namespace = namespace
        self._injected = frozenset(injected)
        self._seen: dict[str, object] = {}
        self._known: dict[str, _Known] = {}
        self._shares: dict[str, frozenset[int]] = {}
        self._named: frozenset[str] = frozenset()
        self._touched: set[str] = set()
        self._uses = Uses(frozenset(), frozenset(), frozenset(), frozenset())
        self._handles: set[str] = set()
        self._unknowable: set[str] = set()
        self._bound_only: frozenset[str] = frozenset()
        self._neighbours = Neighbours()
        self._moved: set[str] = set()
        self._interrupted = False
        self.diff = NamespaceDiff()

    def changed(self) -> frozenset[str]:
        """Names that were added, bound again or changed in place since the last call, or may have been.

        Also those of which only the parts are other objects now, with the same content.
        """
        moved, self._moved = self._moved, set()
        return frozenset(moved & self._known.keys())

    def groups(self, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """`names`, and all further ones that share mutable objects with them, in groups that share nothing; sorted."""
        bound = BoundNames(self._namespace)

        def apart(value: object) -> bool:
            return isinstance(value, NodeBase) or bound.path_of(value) is not None

        shares = {
            name: kept_parts(known.reference, known.contents, apart)
            for name in self._shares
            if (known := self._known.get(name)) is not None
        }
        return groups_of((name for name in names if name in self._known), self._neighbours.joined(shares))

    def before(self, tree: ast.AST) -> None:
        """Notes what the statement about to run may touch, and lets go of values it may rebind or delete."""
        self.diff = NamespaceDiff()
        self._named = names_in(tree)
        self._touched = reachable(self._named, self._used_by, self._namespace)
        self._uses = uses_in(tree, self._namespace)
        self._bound_only = bound_in(tree) - loaded_in(tree)
        self._look_at_handles()
        # A reference of ours would keep alive what `del x` is meant to free.
        for name in bound_in(tree):
            known = self._known.get(name)
            if known is not None and type(known.reference) not in FIXED:
                self._known[name] = replace(known, reference=_MISSING)
                self._seen[name] = _MISSING

    def _used_by(self, name: str) -> Iterable[str]:
        known = self._known.get(name)
        return known.contents.uses if known else ()

    def _look_at_handles(self) -> None:
        """A tick between the statements may have changed nodes: that is no change of the statement's."""
        if not self._handles:
            return
        parts = frozenset[int]().union(*(self._shares[name] for name in self._touched if name in self._shares))
        allowance = Allowance(_ALLOWANCE)
        for name in sharing_with(parts, {name: self._shares[name] for name in self._handles & self._shares.keys()}):
            known = self._known[name]
            if known.reference is not _MISSING:
                self._keep(name, _looked_again(known, allowance))

    def after(self) -> NamespaceDiff:
        """The difference to the end of the statement before. Runs code of the user's and of libraries: reprs, pickling.

        Raises:
            KeyboardInterrupt: it was interrupted; `diff` holds all names, unknown where they were not examined.
        """
        found = _Found()
        try:
            self._compare(found)
        except KeyboardInterrupt:
            # It comes once, so this time nothing ends what is left. No code of the user's runs in it.
            self._interrupted = True
            self._compare(found)
        self.diff = found.diff()
        self._moved.update(found.added, found.changed, found.unknown)
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        return self.diff

    def _compare(self, found: _Found) -> None:
        """Goes on with what is not in `found` yet."""
        fresh, rebound, deleted = self._scan()
        # What was there before comes first, because only that can be found to have changed.
        self._neighbours.begin(name for name in self._touched if name in self._shares)
        for name in sorted(self._touched - found.examined.union(fresh, rebound, deleted)):
            self._note_mutated(name, found, spreads=True)
        for name in fresh:
            self._note_fresh(name, found)
        for name in rebound:
            self._note_rebound(name, found)
        for name in deleted:
            self._forget(name, found)
        self._touched |= reachable(self._named, self._used_by, self._namespace)
        self._neighbours.begin(name for name in self._touched if name in self._shares)
        for name in sorted(self._touched - found.examined):
            self._note_mutated(name, found, spreads=True)
        for name in sorted(self._sharing(found) - found.examined):
            self._note_mutated(name, found, spreads=False)

    def _scan(self) -> tuple[list[str], list[str], list[str]]:
        """Names that are new, bound to another object, and gone. Loops over all names run in C: there may be many."""
        seen = self._seen
        # A copy, because threads of the user's may bind names meanwhile.
        present = self._namespace.copy()
        bound = map(seen.get, present, repeat(_UNSEEN))
        moved = list(compress(present, map(is_not, bound, present.values())))
        known = seen.keys() & moved
        fresh = [name for name in moved if name not in known]
        deleted = [name for name in seen if name not in present] if len(seen) + len(fresh) > len(present) else []
        seen.update((name, present[name]) for name in moved if not self._shown(name))
        rebound = [name for name in moved if name in known]
        return [*filter(self._shown, fresh)], [*filter(self._shown, rebound)], deleted

    def _shown(self, name: object) -> bool:
        return type(name) is str and name[:2] != "__" and name not in self._injected

    # --- one name after the other ------------------------------------------------------------------------------------

    def _note_fresh(self, name: str, found: _Found) -> None:
        known = self._learn(name, found)
        found.examined.add(name)
        found.added[name] = known.info
        if known.digest is not None:
            found.digests[name] = known.digest

    def _note_rebound(self, name: str, found: _Found) -> None:
        before = self._known[name]
        after = self._learn(name, found)
        found.examined.add(name)
        self._note_spread(name, before, found)
        self._note_loose(name, before, found)
        same = before.identity == after.identity and before.info.type_name == after.info.type_name
        equal = before.contents.digest == after.contents.digest
        told = bool(before.contents.digest and after.contents.digest)
        if same and (equal or not told):
            self._note_same(name, before, after, found, touched=True)
        elif not (equal and type(after.reference) in ATOMS and not after.contents.gap):
            found.changed[name] = _change(before, after, mutated=same)

    def _note_mutated(self, name: str, found: _Found, *, spreads: bool) -> None:
        found.examined.add(name)
        before = self._known.get(name)
        if before is None or before.reference is _MISSING or not before.contents.parts:
            return
        if self._interrupted or name in self._unknowable:
            self._leave_unknown(name, before, found)
            return
        after = self._look_again(name, before, found)
        if before.contents.digest and after.contents.digest and before.contents.digest != after.contents.digest:
            found.changed[name] = _change(before, after, mutated=True)
        else:
            self._note_same(name, before, after, found, touched=spreads)
        if spreads and after.contents != before.contents:
            self._note_spread(name, before, found)
            self._note_spread(name, after, found)
        if spreads:
            self._note_loose(name, after, found)

    def _note_same(self, name: str, before: _Known, after: _Known, found: _Found, *, touched: bool) -> None:
        """The content that can be told is the same. The parts may be others, and what cannot be told may be another."""
        if before.contents.order != after.contents.order or before.contents.parts != after.contents.parts:
            self._moved.add(name)
        gap = after.contents.gap or before.contents.gap
        told = before.contents.digest and after.contents.digest
        if gap and (self._may_change(name, after) if touched else not told or self._is_reached(name, before, found)):
            found.unknown[name] = gap

    def _note_loose(self, name: str, known: _Known, found: _Found) -> None:
        """What cannot be told of the name may have changed, and so may what other names share of that."""
        if known.contents.gap and self._may_change(name, known):
            found.loose |= known.contents.gaps
            found.dirty |= known.contents.gaps
            if known.contents.cut:
                found.spread.add(name)

    def _leave_unknown(self, name: str, known: _Known, found: _Found) -> None:
        gap = known.contents.gap or _INTERRUPTED
        known = replace(known, contents=replace(known.contents, gap=gap, digest=""))
        if self._may_change(name, known):
            self._known[name] = known
            found.unknown[name] = gap

    def _may_change(self, name: str, known: _Known) -> bool:
        """Whether the statement may have changed what cannot be told of a name that it touched."""
        uses, contents = self._uses, known.contents
        if name not in uses.read and name not in uses.stored:
            return True
        if name in uses.stored and (contents.large or known.identity in contents.gaps):
            return True
        if name in uses.consumed and not contents.large:
            return True
        # To read from an object of the user's may run any code of its class.
        return type(known.reference) in contents.classes

    def _is_reached(self, name: str, known: _Known, found: _Found) -> bool:
        """Whether what cannot be told of a name that the statement did not touch belongs to one that it did."""
        if not found.loose.isdisjoint(known.contents.gaps):
            return True
        return known.contents.cut and not self._neighbours.of(name).isdisjoint(found.spread)

    def _note_spread(self, name: str, known: _Known, found: _Found) -> None:
        if name not in self._bound_only:
            found.dirty |= known.contents.parts
            found.spread.add(name)

    def _sharing(self, found: _Found) -> set[str]:
        """Names that may have changed by way of those that the statement touched."""
        names = set(sharing_with(frozenset(found.dirty), self._shares)) if found.dirty else set[str]()
        return names | self._neighbours.around(found.spread)

    def _forget(self, name: str, found: _Found) -> None:
        del self._seen[name]
        known = self._known.pop(name, None)
        if known is not None:
            self._note_spread(name, known, found)
            self._note_loose(name, known, found)
        if self._shown(name):
            found.deleted.add(name)
        self._shares.pop(name, None)
        self._neighbours.forget(name)
        self._handles.discard(name)
        self._unknowable.discard(name)

    # --- what is known -----------------------------------------------------------------------------------------------

    def _learn(self, name: str, found: _Found) -> _Known:
        value = self._namespace.get(name, _MISSING)
        info = TypeInfo(type_name=type(value).__name__, short_repr=ELLIPSIS)
        # Should an interrupt end this, the value is not looked at again: it would hang every later statement too.
        self._unknowable.add(name)
        self._seen[name] = value
        parts = frozenset((id(value),))
        known = _Known(id(value), value, info, Contents(digest="", gap=_INTERRUPTED, parts=parts, gaps=parts))
        self._keep(name, known)
        if not self._interrupted:
            try:
                known = _Known(id(value), value, describe(value), contents_of(value, found.allowance))
            except KeyboardInterrupt:
                self._interrupted = True
                return known
            self._keep(name, known)
            self._unknowable.discard(name)
        return known

    def _look_again(self, name: str, before: _Known, found: _Found) -> _Known:
        self._unknowable.add(name)
        try:
            after = _looked_again(before, found.allowance)
        except KeyboardInterrupt:
            self._interrupted = True
            after = replace(before, contents=replace(before.contents, gap=_INTERRUPTED, digest=""))
        else:
            self._unknowable.discard(name)
        self._keep(name, after)
        return after

    def _keep(self, name: str, known: _Known) -> None:
        # In this order, because an interrupt may come between: too many parts are harmless.
        if known.contents.parts:
            self._shares[name] = known.contents.parts
        self._known[name] = known
        if not known.contents.parts:
            self._shares.pop(name, None)
        self._neighbours.note(name, cut=known.contents.cut)
        (self._handles.add if known.contents.handles else self._handles.discard)(name)


def _looked_again(known: _Known, allowance: Allowance) -> _Known:
    """What is under the name now, described anew where it is not the same."""
    contents = contents_again(known.reference, known.contents, allowance)
    if contents == known.contents:
        return known
    if not contents.digest:
        contents = replace(contents, parts=contents.parts | known.contents.parts)
    info = describe(known.reference) if contents.digest != known.contents.digest else known.info
    return replace(known, info=info, contents=contents)


def _change(before: _Known, after: _Known, mutated: bool) -> ChangeInfo:
    return ChangeInfo(
        before=before.info,
        after=after.info,
        before_digest=before.digest,
        after_digest=after.digest,
        mutated=mutated,
    )
