"""The changes of a statement in the namespace: added, rebound, mutated and deleted names, and unknown ones.

An identity scan over all names finds new bindings. Changes in place are found by walking the values that the statement
may have touched, and the values that share mutable parts with a changed one. The cost is a pointer comparison per name
plus the touched content. Used by `executor`; the keeper asks it for groups.

Every change is found, because a statement reaches an older object only through a name that it touches (`names_used`).
The parts of each touched value are known from before. If none of them changed, was added or was removed, then no part
of another name changed through it. Otherwise every name that has one of these parts is walked too, so one round is
enough. Changes made in other ways (by a thread of an earlier statement, or a library's own state) show with the next
statement that touches the name.

If a value's content is partly unknown (an open file, a value too large) and its known part is unchanged, the name is
"unknown" if the statement may have changed the rest: it used the name other than for reading, or the name shares an
unknown part with one that it used. Modules, builtins and library classes are identified by name, and never unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from itertools import compress, repeat
from operator import is_not
from typing import Final

from msgspec.structs import replace

from ...core.execution import NamespaceDiff
from .contents import Allowance
from .handles.live_nodes import Holding
from .names_used import LateUses, names_in, reachable
from .sharing import (
    ALLOWANCE,
    ATOMS,
    FIXED,
    Found,
    Known,
    Neighbours,
    change_of,
    kept_groups,
    learned,
    left_open,
    looked_again,
    may_be_apart,
    sharing_with,
    unexamined,
)

_MISSING: Final = object()
_UNSEEN: Final = object()


class NamespaceWatch:
    """Follows one namespace from statement to statement.

    `diff` is the difference of the last statement; incomplete if `after` was interrupted.
    """

    def __init__(self, namespace: dict[str, object], injected: Collection[str]) -> None:
        self._namespace = namespace
        self._injected = frozenset(injected)
        self._seen: dict[str, object] = {}
        self._known: dict[str, Known] = {}
        self._shares: dict[str, frozenset[int]] = {}
        self._named = self._bound_only = frozenset[str]()
        self._touched: set[str] = set()
        self._moved: set[str] = set()
        self._uses = LateUses(ast.Module([], []), frozenset(), ())
        self.holding = Holding(self._shares)
        self._apart: set[str] = set()  # names whose copies may have other parts than `_shares` says
        self._unknowable: set[str] = set()
        self._neighbours = Neighbours()
        self._interrupted: KeyboardInterrupt | None = None
        """What has ended the examination of a value."""
        self._is_open = False
        """Whether a statement has begun whose difference is not known yet."""
        self.diff = NamespaceDiff()

    def changed(self, still: Iterable[str] = ()) -> frozenset[str]:
        """The names that were, or may have been, added, rebound or changed in place since the last call.

        Also names whose parts are other objects now with equal content. `still` are reported by the next call again.
        """
        moved, self._moved = self._moved & self._known.keys(), set(still)
        return frozenset(moved)

    def groups(self, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Group `names`, and all names that share mutable objects with them; sorted. The groups share nothing."""
        known = self._known.keys() & names
        apart = {name: self._known[name] for name in self._apart & self._shares.keys()}
        return kept_groups(known, self._known, self._shares, apart, self._neighbours, self._namespace)

    def before(self, tree: ast.Module) -> None:
        """Note the names that the next statement may touch, and release the values that it may rebind or delete."""
        self.diff, self._is_open = NamespaceDiff(), True
        names = names_in(tree)
        self._named = names.used | names.quoted
        self._touched = reachable(self._named, self._used_by, self._namespace)
        self._uses = LateUses(tree, names.used, self._namespace)
        self._bound_only = names.bound - names.loaded
        self._look_at_handles()
        self._let_go(names.bound)

    def before_setting(self, names: Iterable[str]) -> None:
        """Note that these names are about to be set without a statement, perhaps by filling their values."""
        self._bound_only = frozenset[str]()
        self._let_go(names)

    def _let_go(self, names: Iterable[str]) -> None:
        # Because our reference would keep alive an object that `del x` should free.
        for name in names:
            known = self._known.get(name)
            if known is not None and type(known.reference) not in FIXED:
                self._known[name] = replace(known, reference=_MISSING)
                self._seen[name] = _MISSING

    def _used_by(self, name: str) -> Iterable[str]:
        known = self._known.get(name)
        return known.contents.uses if known else ()

    def _look_at_handles(self) -> None:
        """Examine nodes again: changes by a tick between the statements must not count as the statement's."""
        if not self.holding.names:
            return
        parts = frozenset[int]().union(*(self._shares[name] for name in self._touched if name in self._shares))
        allowance = Allowance(ALLOWANCE)
        for name in sharing_with(parts, {name: self._shares.get(name, frozenset()) for name in self.holding.names}):
            if (known := self._known[name]).reference is not _MISSING:
                self._keep(name, looked_again(known, allowance))

    def after(self) -> NamespaceDiff:
        """The difference to the end of the previous statement. Runs user and library code: reprs, pickling.

        Raises:
            KeyboardInterrupt: it was interrupted; `diff` has all names, as unknown if they were not examined.
        """
        found = Found()
        try:
            self._finish(found)
        except KeyboardInterrupt as error:
            # There is only one interrupt, so nothing ends the rest, which runs no user code.
            self._interrupted = error.with_traceback(None)  # whose frames would keep values alive
            self._finish(found)
        if self._interrupted is None:
            return self.diff
        try:
            raise self._interrupted
        finally:
            self._interrupted = None

    def ended(self) -> NamespaceDiff:
        """The difference, even if an interrupt came before `after` began. Must not be interrupted itself."""
        if self._is_open:
            self._interrupted = KeyboardInterrupt()
            self._finish(Found())
            self._interrupted = None
        return self.diff

    def _finish(self, found: Found) -> None:
        self._compare(found)
        self.diff = found.diff()
        holders = sharing_with(found.unbound, self._shares) if found.unbound else ()
        self._moved.update(found.added, found.changed, found.unknown, holders)
        self._is_open = False

    def _compare(self, found: Found) -> None:
        """Examine the names that are not in `found` yet.

        An interrupt may come between any two steps, and then this runs again. So a name is marked as examined in the
        last step, and `found` keeps the knowledge from before the first run.
        """
        fresh, rebound, deleted = self._scan()
        # Older names come first, because only they can have changed.
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
        """The names that are new, rebound, and gone. Loops over all names run in C, because there may be many."""
        seen = self._seen
        # A copy, because the user's threads may bind names during the scan.
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

    # --- one name -----------------------------------------------------------------------------------------------------

    def _note_fresh(self, name: str, found: Found) -> None:
        known = self._learn(name, found)
        found.added[name] = known.info
        if known.digest is not None:
            found.digests[name] = known.digest
        self._note_seen(name, known, found)

    def _note_seen(self, name: str, known: Known, found: Found) -> None:
        found.examined.add(name)
        self._seen[name] = known.reference

    def _note_rebound(self, name: str, found: Found) -> None:
        before = found.before.setdefault(name, self._known[name])
        after = self._learn(name, found)
        self._note_spread(name, before, found)
        self._note_loose(name, before, found)
        same = before.identity == after.identity and before.info.type_name == after.info.type_name
        equal = before.contents.digest == after.contents.digest
        told = bool(before.contents.digest and after.contents.digest)
        if same and (equal or not told):
            self._note_same(name, before, after, found, touched=True)
        elif not (equal and type(after.reference) in ATOMS and not after.contents.gap):
            found.changed[name] = change_of(before, after, mutated=same)
        self._note_seen(name, after, found)

    def _note_mutated(self, name: str, found: Found, *, spreads: bool) -> None:
        known = self._known.get(name)
        if known is not None and known.reference is not _MISSING and known.contents.parts:
            self._note_change(name, found.before.setdefault(name, known), found, spreads=spreads)
        found.examined.add(name)

    def _note_change(self, name: str, before: Known, found: Found, *, spreads: bool) -> None:
        if self._interrupted is not None or name in self._unknowable:
            self._leave_unknown(name, before, found)
            return
        after = self._look_again(name, before, found)
        if before.contents.digest and after.contents.digest and before.contents.digest != after.contents.digest:
            found.changed[name] = change_of(before, after, mutated=True)
        else:
            self._note_same(name, before, after, found, touched=spreads)
        if spreads and after.contents != before.contents:
            self._note_spread(name, before, found)
            self._note_spread(name, after, found)
        if spreads:
            self._note_loose(name, after, found)

    def _note_same(self, name: str, before: Known, after: Known, found: Found, *, touched: bool) -> None:
        """Note a name whose known content is unchanged. Its parts and its unknown content may have changed."""
        if before.contents.order != after.contents.order or before.contents.parts != after.contents.parts:
            self._moved.add(name)
        gap = after.contents.gap or before.contents.gap
        told = before.contents.digest and after.contents.digest
        if gap and (
            after.may_be_changed(name, self._uses.found)
            if touched
            else not told or self._is_reached(name, before, found)
        ):
            found.unknown[name] = gap

    def _note_loose(self, name: str, known: Known, found: Found) -> None:
        """Note that the unknown content of a name may have changed, and so that of names that share it."""
        if known.contents.gap and known.may_be_changed(name, self._uses.found):
            found.loose |= known.contents.gaps
            found.dirty |= known.contents.gaps
            if known.contents.cut:
                found.spread.add(name)

    def _leave_unknown(self, name: str, known: Known, found: Found) -> None:
        known = left_open(known)
        gap = known.contents.gap
        if known.may_be_changed(name, self._uses.found):
            self._known[name] = known
            found.unknown[name] = gap

    def _is_reached(self, name: str, known: Known, found: Found) -> bool:
        """Whether a touched name shares the unknown content of this untouched one."""
        if not found.loose.isdisjoint(known.contents.gaps):
            return True
        return known.contents.cut and not self._neighbours.of(name).isdisjoint(found.spread)

    def _note_spread(self, name: str, known: Known, found: Found) -> None:
        found.unbound |= known.contents.parts if known.is_named else frozenset()
        if name not in self._bound_only:
            found.dirty |= known.contents.parts
            found.spread.add(name)

    def _sharing(self, found: Found) -> set[str]:
        """The names that may have changed through the touched ones."""
        names = set(sharing_with(frozenset(found.dirty), self._shares)) if found.dirty else set[str]()
        return names | self._neighbours.around(found.spread)

    def _forget(self, name: str, found: Found) -> None:
        if self._shown(name):
            found.deleted.add(name)
        if (known := self._known.pop(name, None)) is not None:
            self._note_spread(name, known, found)
            self._note_loose(name, known, found)
        self.holding.forget(name, self._shares.pop(name, frozenset()))
        self._neighbours.forget(name)
        self._apart.discard(name)
        self._unknowable.discard(name)
        del self._seen[name]

    def _learn(self, name: str, found: Found) -> Known:
        value = self._namespace.get(name, _MISSING)
        # If an interrupt ends this, the value is not examined again, because it would hang every later statement too.
        self._unknowable.add(name)
        known = unexamined(value)
        self._keep(name, known)
        try:
            known = learned(value, found.allowance) if self._interrupted is None else left_open(known)
            self._unknowable.discard(name)
        except KeyboardInterrupt as error:
            self._interrupted = error.with_traceback(None)  # whose frames would keep values alive
            known = left_open(known)
        self._keep(name, known)
        return known

    def _look_again(self, name: str, before: Known, found: Found) -> Known:
        self._unknowable.add(name)
        try:
            after = looked_again(before, found.allowance)
        except KeyboardInterrupt as error:
            self._interrupted = error.with_traceback(None)  # whose frames would keep values alive
            after = left_open(before)
        else:
            self._unknowable.discard(name)
        self._keep(name, after)
        return after

    def _keep(self, name: str, known: Known) -> None:
        self.holding.note(name, self._shares.get(name, frozenset()), known.contents)
        # In this order, because an interrupt may come in between, and too many parts are harmless.
        if known.contents.parts:
            self._shares[name] = known.contents.parts
        self._known[name] = known
        if not known.contents.parts:
            self._shares.pop(name, None)
        self._neighbours.note(name, cut=known.contents.cut)
        (self._apart.add if may_be_apart(known) else self._apart.discard)(name)
