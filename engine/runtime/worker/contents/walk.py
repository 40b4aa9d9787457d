"""One walk over everything that a value holds: the digest of its content, and its mutable objects.

The digest depends on content alone. The order of sets and dicts, addresses, and the identity of equal texts and tuples
do not matter. The identity of *mutable* parts does, because a later change reveals it. Each gets a number at its first
visit and is represented by that number afterwards. The digest is that of a depth-first walk in which each node writes
its kind and the number of its children, so different contents give different streams. An opaque part leaves a gap, and
the digest covers the rest.

`parts` holds ids of objects and no references, so that a statement can free what it deletes. An id may be used again
after its object is gone. Then the value that held it has changed, and is walked again. If that was not visible, an id
in `parts` may belong to an object of another value. The two values then count as sharing. That costs a walk or a larger
group and is never wrong, because a walk decides whether a value has changed, not an id. Within one walk ids are unique,
because the walk keeps the objects that it makes.

Runs the code that `forms` runs, and may be interrupted at any point. Must not know about names. Used by `contents`.
"""

from __future__ import annotations

import gc
import marshal
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final, cast

import xxhash
from msgspec import Struct

from ..names_used import names_of_code

TOO_LARGE: Final = "the value is too large to compare"
"""The gap's reason if the content is only too large."""
MARSHALLED: Final = frozenset((int, float, complex, bool, str, bytes, type(None), type(...)))
"""Immutable types whose content `marshal` writes in exactly one way."""
_LONG: Final = frozenset((list, tuple, dict, set, frozenset))
_NO_PARTS: Final = frozenset((ModuleType, FunctionType, CodeType, FrameType))
_BEHIND_A_GAP: Final = 256
NODES: Final = 100_000
"""The most objects to walk in one value; the rest of a larger one is unknown."""
ROOM: Final = 8 << 20
"""The most bytes of numbers, texts and names to digest in one value."""
BUFFER: Final = 256 << 20
"""The most bytes of arrays and buffers to digest in one value."""
_LEAST: Final = 8
"""The least number of bytes that each item of a container counts."""
_SHAPE_NODES: Final = 64
_SHAPE_ROOM: Final = 1 << 16
_FIRST: Final = cast("Callable[[tuple[object, object]], Any]", itemgetter(0))
_SAMPLE: Final = 1_000
"""Items, or bytes, that are digested at each end of a value that is too long."""
_TEXTS: Final = frozenset((str, bytes))
Form = Callable[["Walk", Any], None]
"""Emits the object's own content, and pushes its parts."""


class Walk:
    """The state of one walk, with the methods that forms call: `emit`, `push` and others.

    With `whole`, the walk ends as soon as the value is too large. `apart` says whether a function, class or node is not
    a part of the values that contain it. A user's class for which it returns False is a part of its instances.
    """

    def __init__(
        self,
        form_of: Callable[[type], Form],
        nodes: int,
        room: int,
        *,
        whole: bool = False,
        apart: Callable[[object], bool] | None = None,
    ) -> None:
        self._form_of = form_of
        self.nodes = nodes
        self._room = room
        self._whole = whole
        self._apart = apart
        self._buffer = BUFFER
        self._state = xxhash.xxh3_128()
        self._stack: list[object] = []
        self._numbers: dict[int, int] = {}
        self._temporary: set[int] = set()
        self._kept: list[object] = []
        self._gap = ""
        self._gaps: set[int] = set()
        self._cut = False
        self._shared: set[int] = set()
        self._started = False
        self.codes: set[CodeType] = set()
        self.classes: dict[type, None] = {}
        self.kinds: set[type] = set()
        self.handles = False
        self.named = False

    def over(self, value: object) -> Contents:
        self._stack.append(value)
        try:
            while self._stack:
                self._visit(self._stack.pop())
        except Full:
            self._gap, self._cut = TOO_LARGE, True
        parts = [part for part in self._numbers if part not in self._temporary]
        return Contents(
            digest=self._state.hexdigest(),
            gap=self._gap,
            parts=frozenset(parts).union(self._gaps, self._shared),
            order=hash(tuple(parts)),
            gaps=frozenset(self._gaps),
            uses=frozenset[str]().union(*map(names_of_code, self.codes)),
            classes=tuple(self.classes),
            handles=self.handles,
            named=self.named,
            cut=self._cut,
        )

    def _visit(self, value: object) -> None:
        number = self._numbers.get(id(value))
        if number is not None:
            self._state.update(b"@%d" % number)
            return
        self.nodes -= 1
        if self.nodes < 0:
            raise Full
        try:
            self._form_of(type(value))(self, value)
            self._started = True
        except (KeyboardInterrupt, Full):
            raise
        except BaseException:
            self.leave_gap(value)

    def enter(self, value: object) -> bool:
        """Note a function, class or node; return whether to walk it: it is the value itself, or a part of it."""
        self.named = True
        if self._apart is not None and self._started and self._apart(value):
            return False
        self.number(value)
        return True

    def note_class(self, kind: type) -> None:
        """Note that the value contains an instance of this user class."""
        if kind not in self.classes:
            self.classes[kind] = None
            if self._apart is not None and not self._apart(kind):
                self._stack.append(kind)

    # --- for forms ---------------------------------------------------------------------------------------------------

    def number(self, value: object) -> None:
        """Give a mutable `value` its number, which represents it at later visits."""
        self._numbers[id(value)] = len(self._numbers)

    def shares(self, other: object) -> None:
        """Note that the value contains `other` through a temporary object, or as its memory."""
        self._shared.add(id(other))

    def emit(self, *fields: object) -> None:
        """Digest fields that `marshal` supports."""
        data = marshal.dumps(cast(Any, fields), 2)
        self._room -= len(data)
        self._state.update(data)
        if self._room < 0:
            raise Full

    def emit_buffer(self, value: object, data: memoryview) -> None:
        """Digest the bytes of `value`; only both ends if there are too many."""
        if data.nbytes > self._buffer:
            self._state.update(data[:_SAMPLE])
            self._state.update(data[-_SAMPLE:])
            self._gap = self._gap or TOO_LARGE
            self._gaps.add(id(value))
            return
        self._buffer -= data.nbytes
        self._state.update(data)

    def push(self, *values: object) -> None:
        """Push the object's parts, in order."""
        self._stack += values[::-1]

    def keep(self, value: object) -> None:
        """Keep a temporary `value` alive, so that its id is not reused during the walk."""
        self._kept.append(value)

    def keep_as_made(self, values: Iterable[object]) -> None:
        """Keep each temporary object alive. They are not parts of the value, but their parts are."""
        made = list(values)
        self._kept += made
        self._temporary.update(map(id, made))

    def leave_gap(self, value: object, reason: str = "") -> None:
        """Note that the content of `value` is unknown. Everything that it refers to counts as shared."""
        self.emit("?", kind := type(value).__name__)
        self._gap = self._gap or reason or f"{_article(kind)} {kind} cannot be compared"
        self.number(value)
        self._gaps.add(id(value))
        self._gaps |= behind(value)

    def items(self, tag: str, values: Sequence[object]) -> None:
        """Digest a sequence: immutable items at once; others are walked."""
        if len(values) * _LEAST > self._room:
            self._ends(tag, values)
            return
        kinds = set(map(type, values))
        if kinds <= MARSHALLED:
            self._admit(values, kinds)
            self.emit(tag, values)
            return
        plain = [value for value in values if type(value) in MARSHALLED] if kinds & MARSHALLED else []
        self._admit(plain, kinds)
        others = [value for value in values if type(value) not in MARSHALLED] if plain else values
        self.emit(tag, len(values), [type(value) in MARSHALLED for value in values] if plain else None, plain)
        if len(others) > self.nodes:
            # The walk ends here, unless the first part is wanted.
            if self._whole:
                raise Full
            others = others[: self.nodes + 1]
        self._stack += others[::-1]

    def unordered(self, tag: str, values: Collection[object]) -> None:
        """Digest a set."""
        if len(values) * _LEAST > self._room:
            self.emit(tag, len(values))
            raise Full
        kinds = set(map(type, values))
        if kinds <= MARSHALLED:
            self._admit(values, kinds)
            # marshal writes the members of a set in the order of their bytes.
            self.emit(tag, frozenset(values))
            return
        self.items(tag, sorted(values, key=self._shape))

    def mapping(self, tag: str, pairs: Iterable[tuple[object, object]], count: int, *, ordered: bool = False) -> None:
        """Digest a dict. Its order matters only if it is `ordered`."""
        if count * 2 * _LEAST > self._room:
            self.emit(tag, count)
            raise Full
        listed = list(pairs)
        keys = [key for key, _ in listed]
        kinds = set(map(type, keys))
        if not ordered:
            if kinds in ({str}, {int}):
                listed.sort(key=_FIRST)
            else:
                listed.sort(key=lambda pair: self._shape(pair[0]))
            keys = [key for key, _ in listed]
        self.items(tag, [value for _, value in listed])
        # The values are on the stack already, and keys come before values.
        self.items("k", keys)

    def _admit(self, values: Collection[object], kinds: set[type]) -> None:
        """Check the size before marshalling, because `marshal` copies everything."""
        if kinds.isdisjoint(_TEXTS):
            return
        texts = values if kinds <= _TEXTS else (value for value in values if type(value) in _TEXTS)
        if sum(map(len, cast("Iterable[str]", texts))) > self._room:
            self.emit(len(values))
            raise Full

    def _ends(self, tag: str, values: Sequence[object]) -> None:
        self.emit(tag, len(values))
        self._room = min(self._room, _SHAPE_ROOM)
        self.items(tag, [*values[:_SAMPLE], *values[-_SAMPLE:]])
        raise Full

    def _shape(self, value: object) -> bytes:
        """The sort key of a set member or dict key: its marshalled bytes, else the digest of a short walk."""
        if (kind := type(value)) in MARSHALLED or (
            kind is tuple and set(map(type, cast("tuple[object, ...]", value))) <= MARSHALLED
        ):
            return marshal.dumps(cast(Any, value), 2)
        self.nodes -= 4
        return _ShapeWalk(self._form_of, _SHAPE_NODES, _SHAPE_ROOM).over(value).digest.encode()


class Full(BaseException):
    """Ends a walk at its limit."""


class Contents(Struct, frozen=True):
    """The result of a walk.

    Attributes:
        digest: 128-bit xxh3 hex of the known content.
        gap: why a part is unknown; empty if none is.
        parts: ids of the mutable objects in the value.
        order: distinguishes values that contain the same parts in different places.
        gaps: ids of the unknown parts, and of the objects that they refer to.
        uses: global names in the code of the user's functions and classes in the value.
        classes: the user's classes that have instances in it.
        handles: it contains nodes, which also change between statements.
        named: it contains functions, classes or nodes.
        cut: it is larger than the walk, so `parts` is incomplete.
    """

    digest: str
    gap: str = ""
    parts: frozenset[int] = frozenset()
    order: int = 0
    gaps: frozenset[int] = frozenset()
    uses: frozenset[str] = frozenset()
    classes: tuple[type, ...] = ()
    handles: bool = False
    named: bool = False
    cut: bool = False

    @property
    def large(self) -> bool:
        """Whether the unknown content is only too large."""
        return self.gap == TOO_LARGE


class _ShapeWalk(Walk):
    """A walk that never sorts by shape, because that takes a walk of each member, and so might never end."""

    def unordered(self, tag: str, values: Collection[object]) -> None:
        self.emit(tag, len(values))

    def mapping(self, tag: str, pairs: Iterable[tuple[object, object]], count: int, *, ordered: bool = False) -> None:
        listed = [] if count > _SHAPE_NODES else list(pairs)
        if any(type(key) is not str for key, _ in listed):
            listed = []
        self.emit(tag, count)
        super().mapping(tag, listed, len(listed), ordered=ordered)


def _article(noun: str) -> str:
    return "an" if noun[:1] in "AEIOUaeiou" else "a"


# --- referents of opaque objects --------------------------------------------------------------------------------------


def behind(value: object, limit: int = _BEHIND_A_GAP) -> set[int]:
    """The ids of objects that `value` refers to, directly or not; at most about `limit`.

    Functions, classes and modules are not followed.
    """
    found: set[int] = set()
    waiting = [value]
    while waiting and len(found) < limit:
        # Because `gc` lists all items of a container at once, however many there are.
        waiting = [each for each in waiting if type(each) not in _LONG or len(cast("list[object]", each)) <= limit]
        near = [each for each in gc.get_referents(*waiting) if _is_part(each) and id(each) not in found]
        found.update(map(id, near))
        waiting = near
    return found


def _is_part(value: object) -> bool:
    kind = type(value)
    if kind in MARSHALLED or kind in _NO_PARTS or issubclass(kind, type):
        return False
    return kind is not dict or "__builtins__" not in cast("dict[object, object]", value)
