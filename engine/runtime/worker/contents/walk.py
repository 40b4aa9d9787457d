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

TOO_LARGE: Final = "it is too large to be compared"
"""Why content could not be told, where there is only too much of it."""
MARSHALLED: Final = frozenset((int, float, complex, bool, str, bytes, type(None), type(...)))
"""Immutable types whose content `marshal` writes, each in one way only."""
_LONG: Final = frozenset((list, tuple, dict, set, frozenset))
_NO_PARTS: Final = frozenset((ModuleType, FunctionType, CodeType, FrameType))
_BEHIND_A_GAP: Final = 256
NODES: Final = 100_000
"""Objects walked in one value at most; a value of more is known in part."""
ROOM: Final = 8 << 20
"""Bytes of numbers, texts and names digested at most, in one value."""
BUFFER: Final = 256 << 20
"""Bytes of arrays and buffers digested at most, in one value."""
_LEAST: Final = 8
"""Bytes that an item of a container counts at least."""
_SHAPE_NODES: Final = 64
_SHAPE_ROOM: Final = 1 << 16
_FIRST: Final = cast("Callable[[tuple[object, object]], Any]", itemgetter(0))
_SAMPLE: Final = 1_000
"""Items, or bytes, at each end of what is too long to be digested."""
_TEXTS: Final = frozenset((str, bytes))
Form = Callable[["Walk", Any], None]
"""Emits what an object itself is, and pushes what it holds."""


class Walk:
    """The state of one walk, and what forms say to it: `emit`, `push` and the like.

    Where only the `whole` of a value is wanted, the walk ends as soon as it is seen to be too large. `apart` says of a
    function, a class or a node that it counts as no part of what holds it; a class of the user's of which it does not
    say so is a part of its instances then.
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
        """A function, class or node is met. Whether its form is to go on: it is the value itself, or a part of it."""
        self.named = True
        if self._apart is not None and self._started and self._apart(value):
            return False
        self.number(value)
        return True

    def note_class(self, kind: type) -> None:
        """The value holds an instance of this class of the user's."""
        if kind not in self.classes:
            self.classes[kind] = None
            if self._apart is not None and not self._apart(kind):
                self._stack.append(kind)

    # --- for forms ---------------------------------------------------------------------------------------------------

    def number(self, value: object) -> None:
        """`value` may be changed in place: where it is met again, it is the same one."""
        self._numbers[id(value)] = len(self._numbers)

    def shares(self, other: object) -> None:
        """The value holds `other` by way of an object that was made for this walk, or as its memory."""
        self._shared.add(id(other))

    def emit(self, *fields: object) -> None:
        """Digests what can be marshalled."""
        data = marshal.dumps(cast(Any, fields), 2)
        self._room -= len(data)
        self._state.update(data)
        if self._room < 0:
            raise Full

    def emit_buffer(self, value: object, data: memoryview) -> None:
        """Digests the bytes that `value` holds, the two ends only where they are too many."""
        if data.nbytes > self._buffer:
            self._state.update(data[:_SAMPLE])
            self._state.update(data[-_SAMPLE:])
            self._gap = self._gap or TOO_LARGE
            self._gaps.add(id(value))
            return
        self._buffer -= data.nbytes
        self._state.update(data)

    def push(self, *values: object) -> None:
        """What the object holds, in order."""
        self._stack += values[::-1]

    def keep(self, value: object) -> None:
        """`value` was made for this walk: its id must not be used again before the end."""
        self._kept.append(value)

    def keep_as_made(self, values: Iterable[object]) -> None:
        """Like `keep`, for each: none of them is a part of the value, but what they hold is."""
        made = list(values)
        self._kept += made
        self._temporary.update(map(id, made))

    def leave_gap(self, value: object, reason: str = "") -> None:
        """The content of `value` cannot be told. What it refers to counts as shared, whatever it may do with it."""
        self.emit("?", kind := type(value).__name__)
        self._gap = self._gap or reason or f"{_article(kind)} {kind} cannot be compared"
        self.number(value)
        self._gaps.add(id(value))
        self._gaps |= behind(value)

    def items(self, tag: str, values: Sequence[object]) -> None:
        """A sequence: immutable items are digested at once, others are walked."""
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
            # No need to find out how many there are, unless the beginning is to be known.
            if self._whole:
                raise Full
            others = others[: self.nodes + 1]
        self._stack += others[::-1]

    def unordered(self, tag: str, values: Collection[object]) -> None:
        """A set."""
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
        """A dict, whose order is no content unless it is `ordered`."""
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
        # The values are on the stack by now, and the keys come before them.
        self.items("k", keys)

    def _admit(self, values: Collection[object], kinds: set[type]) -> None:
        """Before they are marshalled, because that makes a copy of all of them."""
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
        """What members of a set are put in order by: their content as far as a short walk tells it."""
        if (kind := type(value)) in MARSHALLED or (
            kind is tuple and set(map(type, cast("tuple[object, ...]", value))) <= MARSHALLED
        ):
            return marshal.dumps(cast(Any, value), 2)
        self.nodes -= 4
        return _ShapeWalk(self._form_of, _SHAPE_NODES, _SHAPE_ROOM).over(value).digest.encode()


class Full(BaseException):
    """The value is larger than what is walked."""


class Allowance:
    """How many objects may still be walked, in all the values of one statement."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes


class Contents(Struct, frozen=True):
    """What a walk has found.

    Attributes:
        digest: xxh3 hex, 128 bits, of the content as far as it could be told.
        gap: why not all of it could be told; empty where it could.
        parts: ids of the mutable objects in the value.
        order: tells apart values that hold the same parts in different places.
        gaps: ids of the parts that could not be told, and of what they refer to.
        uses: global names in the code of the user's functions and classes in the value.
        classes: the user's classes of which it holds instances.
        handles: whether it holds nodes, which change between statements too.
        named: whether it holds functions, classes or nodes.
        cut: whether there is more of it than was walked, so that `parts` is not all.
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
        """Whether what could not be told is only too large."""
        return self.gap == TOO_LARGE


class _ShapeWalk(Walk):
    """A walk that puts nothing in order, which would take a walk for each member again, and without an end."""

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
    """Ids of what `value` refers to, and what that does: about `limit` of them at most.

    Functions, classes and modules are not followed.
    """
    found: set[int] = set()
    waiting = [value]
    while waiting and len(found) < limit:
        # The collector lists all of a container at once, however long it is.
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
