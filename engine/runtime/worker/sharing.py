"""Facts about names from one statement to the next: contents, shared objects, differences, and short texts.

`Known` describes a name's value after a statement, and `Found` a difference. Names share mutable objects if the ids of
their values' parts overlap. A view, or a function or class that the namespace binds, has its own name and connects no
others. A class that is not bound any more is kept with each of its instances and connects them.

Short texts are limited in time and size for any value. They call `repr` of user objects, so callers run them under the
interrupt flag and time limit; an exception becomes part of the text. Must not know how values are kept. Used by
`namespace`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import compress, islice
from operator import not_
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ...core.execution import ChangeInfo, NamespaceDiff, TypeInfo
from ...core.text import ELLIPSIS, cut_line, valid_text
from ...files.node import NodeBase
from .contents import Allowance, Contents, behind, contents_again, contents_of, parts_of
from .keeping.naming import BoundNames, is_named
from .names_used import Uses

REPR_LIMIT: Final = 80
_CUT_LATER: Final = 2_500
"""How many characters of a text are looked at, so that a cut recognises a word that may be a key."""
"""Characters of a short repr."""
_ITEMS: Final = 6
_DEPTH: Final = 3
_TITLE: Final = 32
_INTEGER_BITS: Final = 256
_WHOLE: Final = 1_000
"""The most elements of a container whose own repr is called, because that makes the whole text before it is cut."""
_ADDRESS: Final = re.compile(r"\bat 0x[0-9A-Fa-f]{1,16}\b")
"""No longer, so that what is cut later stays longer than what is shown."""
ATOMS: Final = frozenset((int, float, complex, bool, str, bytes, type(None), range))
"""Immutable types whose equality compares their content."""
FIXED: Final = frozenset((*ATOMS, BuiltinFunctionType, ModuleType))
"""Types whose values are not mutated in place."""
_BRACKETS: Final[dict[type, str]] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}
_ENDLESS: Final = frozenset((
    ("builtins", "bytearray"), ("builtins", "dict_keys"), ("builtins", "dict_values"), ("builtins", "dict_items"),
    ("array", "array"), ("collections", "deque"), ("collections", "Counter"), ("collections", "OrderedDict"),
    ("collections", "defaultdict"), ("collections", "ChainMap"), ("collections", "UserDict"),
    ("collections", "UserList"), ("collections", "UserString"), ("builtins", "mappingproxy"),
))  # fmt: skip
"""Types whose repr is as long as their content; by module and name, because most of them are not imported."""
INTERRUPTED: Final = "the examination of the value was interrupted"
ALLOWANCE: Final = 200_000
"""The most objects to walk for one statement, in about half a second."""
_REACHED: Final = 1_000_000
"""The most objects to examine to find out what a large value shares."""
_FEW: Final = 16
"""Up to this many names, comparing each with all names is faster than a table of their parts."""


class Known(Struct, frozen=True):
    """The value of a name when it was last examined.

    `reference` is dropped before a statement that binds or deletes the name. An empty digest means that the value was
    not walked. `is_named`: it is a function or class, which copies of other values may contain by name. `is_open`: it
    may have more parts than are known.
    """

    identity: int
    reference: object
    info: TypeInfo
    contents: Contents
    is_named: bool = False
    is_open: bool = False

    @property
    def digest(self) -> str | None:
        """The digest for the log; None if it does not cover the whole value."""
        return None if self.contents.gap else self.contents.digest

    def may_be_changed(self, name: str, uses: Uses) -> bool:
        """Whether a statement that touched the name may have changed a part that cannot be compared."""
        contents = self.contents
        if name not in uses.read and name not in uses.stored:
            return True
        if name in uses.stored and (contents.large or self.identity in contents.gaps):
            return True
        if name in uses.consumed and not contents.large:
            return True
        # Because reading from a user's object may run code of its class.
        return type(self.reference) in contents.classes


class Found:
    """The known differences after a statement."""

    __slots__ = (
        "added",
        "allowance",
        "before",
        "changed",
        "deleted",
        "digests",
        "dirty",
        "examined",
        "loose",
        "spread",
        "unbound",
        "unknown",
    )

    def __init__(self) -> None:
        self.allowance = Allowance(ALLOWANCE)
        self.before: dict[str, Known] = {}
        """The earlier knowledge about names."""
        self.added: dict[str, TypeInfo] = {}
        self.changed: dict[str, ChangeInfo] = {}
        self.unknown: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.digests: dict[str, str] = {}
        self.examined: set[str] = set()
        self.dirty: set[int] = set()
        """Parts that changed, may have changed, or were removed from their place."""
        self.loose: set[int] = set()
        """Parts that cannot be compared, and may have changed."""
        self.spread: set[str] = set()
        """The names that the parts in `dirty` belong to."""
        self.unbound: frozenset[int] = frozenset()
        """Functions and classes that names no longer bind, with their parts. Copies that contain them by name would get
        another object."""

    def diff(self) -> NamespaceDiff:
        return NamespaceDiff(
            added=self.added,
            changed=self.changed,
            deleted=tuple(sorted(self.deleted)),
            digests=self.digests,
            unknown={name: why for name, why in self.unknown.items() if name not in self.changed},
            deep=True,
        )


def unexamined(value: object) -> Known:
    """The knowledge about a value that was not examined."""
    info = TypeInfo(type_name=type(value).__name__, short_repr=ELLIPSIS)
    parts = frozenset((id(value),))
    return Known(id(value), value, info, Contents(digest="", gap=INTERRUPTED, parts=parts, gaps=parts))


def left_open(known: Known) -> Known:
    """The same if an interrupt prevented the examination: `parts` is incomplete."""
    contents = known.contents
    return replace(known, contents=replace(contents, gap=contents.gap or INTERRUPTED, digest=""), is_open=True)


def learned(value: object, allowance: Allowance) -> Known:
    """Examine a value."""
    return Known(id(value), value, describe(value), contents_of(value, allowance), is_named(value))


def looked_again(known: Known, allowance: Allowance) -> Known:
    """Examine the name's value again; it has a new description if it changed."""
    contents = contents_again(known.reference, known.contents, allowance)
    if contents == known.contents:
        return known
    if not contents.digest:
        contents = replace(contents, parts=contents.parts | known.contents.parts)
    info = describe(known.reference) if contents.digest != known.contents.digest else known.info
    return replace(known, info=info, contents=contents, is_open=False)


def change_of(before: Known, after: Known, mutated: bool) -> ChangeInfo:
    return ChangeInfo(
        before=before.info,
        after=after.info,
        before_digest=before.digest,
        after_digest=after.digest,
        mutated=mutated,
    )


# --- shared objects ---------------------------------------------------------------------------------------------------


def sharing_with(parts: frozenset[int], shares: Mapping[str, frozenset[int]]) -> list[str]:
    """The names that have one of `parts`. The loop over all names runs in C."""
    return list(compress(shares, map(not_, map(parts.isdisjoint, shares.values()))))


class Neighbours:
    """The names that may share parts with a value that is too large to be walked completely.

    Every part was added to it, or taken from it, by a statement that touched both names, or the large value and one of
    its neighbours. So a name that was never touched together with it shares nothing with it.
    """

    def __init__(self) -> None:
        self._of: dict[str, set[str]] = {}
        self._together: set[str] = set()

    def begin(self, names: Iterable[str]) -> None:
        """Note that one statement touched these names."""
        self._together = set(names)
        for large, near in self._of.items():
            if large in self._together or not near.isdisjoint(self._together):
                near.update(self._together)

    def note(self, name: str, *, cut: bool) -> None:
        """Note whether the value of the name is too large now."""
        if cut and name not in self._of:
            self._of[name] = set(self._together)
        elif not cut and self._of:
            self._of.pop(name, None)

    def forget(self, name: str) -> None:
        self._of.pop(name, None)

    def of(self, name: str) -> set[str]:
        return self._of.get(name, set())

    def around(self, names: set[str]) -> set[str]:
        """The large values that neighbour `names`, and the neighbours of those `names` that are large."""
        found = {large for large, near in self._of.items() if not near.isdisjoint(names)}
        return found.union(*(self._of[name] for name in names & self._of.keys()))

    def around_any(self, names: Collection[str]) -> list[str]:
        """The large values that are among `names`, or neighbour one of them."""
        return [large for large, near in self._of.items() if large in names or not near.isdisjoint(names)]


def groups_of(names: Iterable[str], shares: Mapping[str, frozenset[int]]) -> tuple[tuple[str, ...], ...]:
    """Group `names`, and all names that share parts with them, directly or not. The groups share nothing.

    Args:
        names: the first names; one that is not in `shares` is a group by itself.
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
    """A function that finds the names with any of some parts, by a check of all names: fast for one group only."""
    return lambda parts: sharing_with(parts, shares)


def _indexed(shares: Mapping[str, frozenset[int]]) -> Callable[[frozenset[int]], Iterable[str]]:
    """The same with a table of all parts."""
    holders: dict[int, list[str]] = {}
    for name, parts in shares.items():
        for part in parts:
            holders.setdefault(part, []).append(name)
    return lambda parts: (name for part in parts for name in holders.pop(part, ()))


def kept_groups(
    names: Collection[str],
    known: Mapping[str, Known],
    shares: Mapping[str, frozenset[int]],
    apart: Mapping[str, Known],
    neighbours: Neighbours,
    namespace: Mapping[str, object],
) -> tuple[tuple[str, ...], ...]:
    """Group `names` with all names that must be saved together with them. The groups share nothing.

    Args:
        known: the knowledge about every name.
        shares: the parts of each name that has any.
        apart: the names for which `may_be_apart` is true.
    """
    if not any(name in shares for name in names):  # which needs no look at the other names
        return tuple((name,) for name in sorted(set(names)))
    is_apart = _kept_apart(namespace)
    kept = {**shares, **{name: _kept_parts(each, is_apart) for name, each in apart.items()}}
    for name in neighbours.around_any(names):
        # Faster than a walk, but it finds only ids. A larger value is too large to be saved.
        if name in kept:
            kept[name] |= behind(known[name].reference, _REACHED)
    return groups_of(names, kept)


def may_be_apart(known: Known) -> bool:
    """Whether a copy of the value may have other parts: some are saved under their own names, or are unknown."""
    return (
        known.is_open
        or bool(known.contents.named or known.contents.classes)
        or NodeBase in type(known.reference).__mro__
    )


def _kept_apart(namespace: Mapping[str, object]) -> Callable[[object], bool]:
    """A test whether a node, function or class is saved under its own name, and not inside other values."""
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


# --- short texts of values --------------------------------------------------------------------------------------------


def describe(value: object) -> TypeInfo:
    """The type name, the repr without addresses, and the size: elements of a container, bytes of an array or buffer."""
    return TypeInfo(type_name=type(value).__name__, short_repr=short_repr(value), size=_size(value))


def _size(value: object) -> int | None:
    if type(value) in (str, bytes, bytearray, list, tuple, dict, set, frozenset):
        return len(cast("list[object]", value))
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is getattr(numpy, "ndarray", None):
        return int(cast(Any, value).nbytes)
    return None


def short_repr(value: object) -> str:
    """A repr of at most `REPR_LIMIT` characters. If the object's repr fails, it says so."""
    try:
        text = _bounded(value, _DEPTH)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return cut_line(valid_text(_ADDRESS.sub(f"at 0x{ELLIPSIS}", text)), REPR_LIMIT)


def _bounded(value: object, depth: int) -> str:
    kind = type(value)
    # Not with `isinstance`, which may call the object's code.
    if NodeBase in kind.__mro__:
        return _node(cast(NodeBase, value))
    if kind is str or kind is bytes:
        text = cast(str, value)
        return repr(text[:_CUT_LATER]) + (ELLIPSIS if len(text) > _CUT_LATER else "")
    if kind is int and cast(int, value).bit_length() > _INTEGER_BITS:
        return f"<int of {cast(int, value).bit_length()} bits>"
    if kind in _BRACKETS:
        return _container(cast("Iterable[object]", value), kind, depth)
    if kind is dict:
        return _mapping(cast("dict[object, object]", value), depth)
    if (kind.__module__, kind.__name__) in _ENDLESS and len(cast("list[object]", value)) > _WHOLE:
        return f"<{kind.__name__} of {len(cast('list[object]', value))} elements>"
    shape = getattr(value, "shape", None) if kind.__module__ not in ("builtins", "__main__") else None
    return f"<{kind.__name__} of shape {shape}>" if isinstance(shape, tuple) else repr(value)


def _node(node: NodeBase) -> str:
    """A node's state that can change. Its content is represented by the start of its digest."""
    shown = str(node.GetDigest().get("revision", ""))[:8]
    title = cut_line(node.title, _TITLE)
    return f"<{node.obj_type} {title} {node.mode} lod={node.lod} tokens={node.tokens!r} {shown}".rstrip() + ">"


def _container(value: Iterable[object], kind: type, depth: int) -> str:
    first, last = _BRACKETS[kind]
    if not depth:
        return f"{first}{ELLIPSIS}{last}"
    items = [_bounded(item, depth - 1) for item in islice(value, _ITEMS)]
    count = len(cast("list[object]", value))
    if kind is set and not count:
        return "set()"
    inner = ", ".join((*items, ELLIPSIS) if count > _ITEMS else items) + ("," if kind is tuple and count == 1 else "")
    return f"frozenset({first}{inner}{last})" if kind is frozenset else f"{first}{inner}{last}"


def _mapping(value: dict[object, object], depth: int) -> str:
    if not depth:
        return f"{{{ELLIPSIS}}}"
    items = [f"{_bounded(k, depth - 1)}: {_bounded(v, depth - 1)}" for k, v in islice(value.items(), _ITEMS)]
    return "{" + ", ".join((*items, ELLIPSIS) if len(value) > _ITEMS else items) + "}"
