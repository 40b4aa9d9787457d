"""What a statement changed in the namespace: added, rebound, mutated and deleted names.

An identity scan over all names finds what was bound anew; digests of what the statement may have touched find what was
mutated in place, under every name bound to it. The cost is a pointer comparison per name plus the touched bytes. Where
content cannot be digested the digest is None and no mutation is claimed. Used by `executor`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from itertools import compress, repeat
from operator import is_not

from ..cutting import ELLIPSIS
from ..execution import ChangeInfo, NamespaceDiff, TypeInfo
from .summaries import ATOMS, FIXED, describe, digest
from .touched import bound_in, names_in, reachable

_MISSING = object()
_UNSEEN = object()


@dataclass(frozen=True, slots=True)
class _Known:
    """What was last seen under a name. `reference` is dropped before a statement that binds or deletes the name."""

    identity: int
    reference: object
    info: TypeInfo
    digest: str | None


class NamespaceWatch:
    """Follows one namespace from statement to statement."""

    def __init__(self, namespace: dict[str, object], injected: Collection[str]) -> None:
        self._namespace = namespace
        self._injected = frozenset(injected)
        self._seen: dict[str, object] = {}
        self._known: dict[str, _Known] = {}
        self._touched: frozenset[str] = frozenset()
        self._unknowable: set[str] = set()

    def before(self, tree: ast.AST) -> None:
        """Notes what the statement about to run may touch, and lets go of values it may rebind or delete."""
        self._touched = names_in(tree)
        # A reference of ours would keep alive what `del x` is meant to free.
        for name in bound_in(tree):
            known = self._known.get(name)
            if known is not None and type(known.reference) not in FIXED:
                self._known[name] = _Known(known.identity, _MISSING, known.info, known.digest)
                self._seen[name] = _MISSING

    def after(self) -> NamespaceDiff:
        """The difference to the end of the statement before. Runs user code: reprs and pickling."""
        fresh, rebound, deleted = self._scan()
        added: dict[str, TypeInfo] = {}
        changed: dict[str, ChangeInfo] = {}
        digests: dict[str, str] = {}
        for name in fresh:
            known = self._learn(name)
            added[name] = known.info
            if known.digest is not None:
                digests[name] = known.digest
        for name in rebound:
            self._note_rebound(name, changed)
        self._note_mutated(set(fresh) | set(rebound), changed)
        for name in deleted:
            self._forget(name)
        return NamespaceDiff(
            added=added, changed=changed, deleted=tuple(sorted(filter(self._shown, deleted))), digests=digests
        )

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

    def _learn(self, name: str) -> _Known:
        value = self._namespace.get(name, _MISSING)
        # Should an interrupt end this, the value is not looked at again: it would hang every later statement too.
        self._unknowable.add(name)
        self._known[name] = _Known(
            id(value), value, TypeInfo(type_name=type(value).__name__, short_repr=ELLIPSIS), None
        )
        self._seen[name] = value
        known = self._known[name] = _Known(id(value), value, describe(value), digest(value))
        self._unknowable.discard(name)
        return known

    def _forget(self, name: str) -> None:
        del self._seen[name]
        self._known.pop(name, None)
        self._unknowable.discard(name)

    def _note_rebound(self, name: str, changed: dict[str, ChangeInfo]) -> None:
        before = self._known[name]
        after = self._learn(name)
        same = before.identity == after.identity and before.info.type_name == after.info.type_name
        if before.digest == after.digest and (same or (type(after.reference) in ATOMS and before.digest is not None)):
            return
        changed[name] = _change(before, after, mutated=same)

    def _note_mutated(self, known_already: set[str], changed: dict[str, ChangeInfo]) -> None:
        mutated: dict[int, _Known] = {}
        for name in sorted(reachable(self._touched, self._namespace)):
            before = self._known.get(name)
            if before is None or name in known_already or name in self._unknowable or type(before.reference) in FIXED:
                continue
            after = self._learn(name)
            if before.digest is not None and before.digest != after.digest:
                changed[name] = _change(before, after, mutated=True)
                mutated[after.identity] = after
        mutated |= {self._known[name].identity: self._known[name] for name, change in changed.items() if change.mutated}
        if mutated:
            self._note_aliases(mutated, changed)

    def _note_aliases(self, mutated: dict[int, _Known], changed: dict[str, ChangeInfo]) -> None:
        shared = compress(self._seen, map(mutated.__contains__, map(id, self._seen.values())))
        for name in [name for name in shared if name not in changed and name in self._known]:
            before, after = self._known[name], mutated[id(self._seen[name])]
            self._known[name] = after
            if before.digest != after.digest:
                changed[name] = _change(before, after, mutated=True)


def _change(before: _Known, after: _Known, mutated: bool) -> ChangeInfo:
    return ChangeInfo(
        before=before.info,
        after=after.info,
        before_digest=before.digest,
        after_digest=after.digest,
        mutated=mutated,
    )
