"""The readable results of a statement: its streams, its value, its exception, and its source for tracebacks.

The streams are unbuffered, have no input, and are repaired if a statement closes them. A value is its repr; in built-in
containers, at any depth, the first `MOST_ITEMS` items are shown, as in IPython. Other objects use their own repr.
Exceptions are recorded with a limit, from the user's first frame on, with notes and chained causes. `repr` and `str` of
user objects run user code, so callers run them under the interrupt flag.

`SourceLines` keeps sources where tracebacks and `inspect` find them. A session runs statements for days, and few leave
code behind. So a source stays while it is among the newest, or while code of its statement is alive. Must not know who
reads the output. Used by the executor and `forking.child`.
"""

from __future__ import annotations

import builtins
import io
import linecache
import os
import sys
import traceback
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fcntl import ioctl
from itertools import islice
from termios import FIONREAD
from types import CodeType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, cast
from weakref import ref

from ....core.execution import ExceptionInfo
from ....core.text import DOTS, cut_middle

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NO_KEYBOARD = "a statement cannot read from the keyboard; ask the user in your reply instead of calling input()"
MOST_ITEMS: Final = 1_000
"""The most items of one container that are shown, as in IPython."""
_DEEPEST: Final = 20
"""The depth of nested containers that are cut; deeper ones show their own repr."""
_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}
MESSAGE_LIMIT: Final = 4096
TRACEBACK_LIMIT: Final = 16384
"""The most characters of a traceback. The middle is left out, because the ends have the error and its place."""
_FRAMES: Final = 2000
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))) + os.sep
"""The package that the worker runs on."""
_LABEL: Final = "<statement "
NEWEST: Final = 256
"""The number of sources that always stay, because copies of their code may live on."""
_LOOKS: Final = 2
"""The older sources that are checked for each new one. With one, unneeded ones would never become fewer. With two, in
the long run there are at most as many unneeded as needed ones."""
_Entry = tuple[int, None, list[str], str]


def install() -> None:
    """Set Python's streams on 0, 1 and 2, unbuffered, so that output of children and C code stays in order."""
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    sys.stdout = sys.__stdout__ = _text(1, "backslashreplace")
    sys.stderr = sys.__stderr__ = _text(2, "backslashreplace")
    builtins.input = no_input


def ensure() -> None:
    """Replace streams that a statement closed or set to None. Streams that a statement installed stay."""
    if _unusable(sys.stdout):
        sys.stdout = _text(1, "backslashreplace")
    if _unusable(sys.stderr):
        sys.stderr = _text(2, "backslashreplace")


def repair(spares: tuple[int, int]) -> None:
    """The same for the three descriptors, if a statement closed them."""
    if all(_is_open(descriptor) for descriptor in range(3)):
        return
    with suppress(OSError):
        for target, source in enumerate((None, *spares)):
            if source is not None and not _is_open(target):
                os.dup2(source, target)
        if not _is_open(0):
            # It gets the lowest free descriptor, which is 0.
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)


def replace(spares: tuple[int, int]) -> None:
    """Put /dev/null on 0, and copies of the pipes in `spares` on 1 and 2."""
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((null, *spares)):
        os.dup2(source, target)
    if null > 2:  # noqa: PLR2004 -- the standard streams
        os.close(null)


def is_empty(spares: tuple[int, int]) -> bool:
    """Whether the host has read everything from the pipes of stdout and stderr."""
    return all(_waiting(descriptor) == 0 for descriptor in spares)


def no_input(_prompt: object = "", /) -> NoReturn:
    """The replacement of `input` in statements."""
    raise EOFError(_NO_KEYBOARD)


class _Pipe(io.FileIO):
    """An unbuffered descriptor that writes everything, even if a signal interrupts the write."""

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data).cast("B")
        total = len(view)
        while view:
            view = view[super().write(view) or 0 :]
        return total


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _waiting(descriptor: int) -> int:
    # Both ends of a pipe report how much is in it.
    number = array("i", (0,))
    ioctl(descriptor, FIONREAD, number)
    return number[0]


def _unusable(stream: object) -> bool:
    try:
        return bool(getattr(stream, "closed", stream is None))
    except Exception:
        return True


def _text(descriptor: int, errors: str) -> io.TextIOWrapper:
    pipe = _Pipe(descriptor, "w", closefd=False)
    return io.TextIOWrapper(pipe, encoding="utf-8", errors=errors, write_through=True)  # pyright: ignore[reportArgumentType] -- unbuffered, as under `python -u`


# --- values -----------------------------------------------------------------------------------------------------------


def value_text(value: object) -> str:
    """The repr of the value; for a container with more than `MOST_ITEMS` items, of the first ones."""
    return _elided(value, _DEEPEST) if _is_long(value, _DEEPEST, [MOST_ITEMS * 10], set()) else repr(value)


def _kind(value: object) -> type:
    return type(value)


def _is_long(value: object, depth: int, room: list[int], above: set[int]) -> bool:
    """Whether a container in the value is too long; checks at most `room` containers, and leaves cycles to repr."""
    if _kind(value) not in _BRACKETS or depth == 0 or room[0] <= 0 or id(value) in above:
        return False
    room[0] -= 1
    items = cast("list[object]", value)
    if len(items) > MOST_ITEMS:
        return True
    inner: Iterable[object] = cast("dict[object, object]", value).values() if _kind(value) is dict else items
    above.add(id(value))
    found = any(_is_long(each, depth - 1, room, above) for each in inner)
    above.discard(id(value))
    return found


def _elided(value: object, depth: int, above: tuple[int, ...] = ()) -> str:
    if _kind(value) not in _BRACKETS or depth == 0 or not value:
        return repr(value)
    opening, closing = _BRACKETS[_kind(value)]
    if id(value) in above:
        return f"{opening}{DOTS}{closing}"
    above = (*above, id(value))
    items = cast("list[object]", value)
    if _kind(value) is dict:
        pairs = islice(cast("dict[object, object]", value).items(), MOST_ITEMS)
        shown = [f"{_elided(key, depth - 1, above)}: {_elided(each, depth - 1, above)}" for key, each in pairs]
    else:
        shown = [_elided(each, depth - 1, above) for each in islice(items, MOST_ITEMS)]
    if len(items) > MOST_ITEMS:
        shown.append(DOTS)
    comma = "," if _kind(value) is tuple and len(items) == 1 else ""
    return f"{opening}{', '.join(shown)}{comma}{closing}"


# --- exceptions -------------------------------------------------------------------------------------------------------


def describe_failure(error: BaseException, *, traced: bool = True) -> ExceptionInfo:
    """The type, message and traceback of an exception. Errors of its own methods become part of the message.

    Without `traced` there is no traceback, because making one takes longer than most statements.
    """
    message = cut_middle(_message(error), MESSAGE_LIMIT)
    return ExceptionInfo(
        type=type(error).__name__,
        message=message,
        traceback=cut_middle(_traceback(error), TRACEBACK_LIMIT) if traced else "",
    )


def _traceback(error: BaseException) -> str:
    report = traceback.TracebackException(type(error), error, error.__traceback__, limit=_limit(error), compact=True)
    _strip(report, set())
    return "".join(report.format())


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        return f"<its str() raised {type(failure).__name__}>"


def _limit(error: BaseException) -> int | None:
    depth, step = 0, error.__traceback__
    while step is not None:
        depth, step = depth + 1, step.tb_next
    # A negative limit keeps the last frames, which are enough for a runaway recursion.
    return -_FRAMES if depth > _FRAMES else None


def _strip(report: traceback.TracebackException, done: set[int]) -> None:
    """Remove our frames before the user's first, and from our first one after the statement's last, all others."""
    if id(report) in done:
        return
    done.add(id(report))
    frames = list(report.stack)
    first = next((i for i, frame in enumerate(frames) if not _is_ours(frame)), len(frames))
    own = max((i for i, frame in enumerate(frames) if frame.filename.startswith(_LABEL)), default=first)
    last = next((i for i, frame in enumerate(frames) if i > own and _is_ours(frame)), len(frames))
    report.stack[:] = frames[first:last]
    for chained in (report.__cause__, report.__context__, *(report.exceptions or ())):
        if chained is not None:
            _strip(chained, done)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE)


class _Kept(NamedTuple):
    """The cached source of a statement, and its code objects, which may occur in tracebacks."""

    entry: _Entry
    codes: list[ref[CodeType]]


# --- sources for tracebacks -------------------------------------------------------------------------------------------


class SourceLines:
    """The sources of one namespace's statements. Other entries of Python's line cache are left alone."""

    def __init__(self) -> None:
        self._cache = linecache.cache
        self._newest: deque[_Kept] = deque()
        self._older: deque[_Kept] = deque()

    def show(self, source: str, label: str) -> None:
        """Add the source of a new statement, `label` in tracebacks."""
        entry = (len(source), None, source.splitlines(keepends=True), label)
        self._cache[label] = entry
        self._newest.append(_Kept(entry, []))
        if len(self._newest) > NEWEST:
            self._older.append(self._newest.popleft())
        for _ in range(min(_LOOKS, len(self._older))):
            self._look()

    def compiled(self, *codes: CodeType) -> None:
        """Note the code objects of the latest statement."""
        self._newest[-1].codes.extend(ref(each) for code in codes for each in _with_defined(code))

    def _look(self) -> None:
        kept = self._older.popleft()
        label = kept.entry[-1]
        if any(code() is not None for code in kept.codes):
            self._older.append(kept)
        elif self._cache.get(label) is kept.entry:  # unless another statement has the label now
            del self._cache[label]


def _with_defined(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_defined(constant)
