"""Which files an act is about to change, by the audit event that announces it.

Owns how the arguments of an event name files. Must not know whether such a file is there, nor what is done about it.
Used by `touching`. Beside Python's own events there are those that `unaudited` raises for calls without one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from .outside import WRITING

Arguments = tuple[Any, ...]

_encode: Final = os.fsencode  # bound here, because a statement may replace it
_BESIDE_A_DATABASE: Final = (b"", b"-journal", b"-wal")
_READ_ONLY: Final = frozenset((1, 3))
"""`mmap.ACCESS_READ` and `mmap.ACCESS_COPY`, without loading the module."""


class Target(NamedTuple):
    """A path as the act has it. `directory` is a descriptor or -1; `follows`: the act follows a link of that name."""

    path: Any
    directory: int = -1
    follows: bool = True


def _opened(args: Arguments) -> Iterator[Target]:
    path, flags, directory = args
    if flags & WRITING:
        yield Target(path, directory)


def _first(args: Arguments) -> Iterator[Target]:
    yield Target(args[0])


def _removed(args: Arguments) -> Iterator[Target]:
    path, directory = args
    yield Target(path, directory, False)


def _permitted(args: Arguments) -> Iterator[Target]:
    path, _, directory = args
    yield Target(path, directory)


def _renamed(args: Arguments) -> Iterator[Target]:
    source, target, source_directory, target_directory = args
    yield Target(source, source_directory, False)
    yield Target(target, target_directory, False)


def _linked(args: Arguments) -> Iterator[Target]:
    _, target, _, target_directory = args
    yield Target(target, target_directory, False)


def _database(args: Arguments) -> Iterator[Target]:
    """A database, and what SQLite keeps beside it of a transaction."""
    name = b"" if args[0] is None else _encode(args[0])
    # Which of both it is, the connection alone knows.
    for each in {name, _of_uri(name)} - {b"", b":memory:"}:
        yield from (Target(each + end) for end in _BESIDE_A_DATABASE)


def _of_uri(name: bytes) -> bytes:
    """The path that a name is as a URI; empty where it is none."""
    if not name.startswith(b"file:"):
        return b""
    path = name[5:].split(b"#")[0].split(b"?")[0]
    if path.startswith(b"//"):
        path = b"/" + path[2:].partition(b"/")[2]
    first, *escaped = path.split(b"%")
    return first + b"".join(bytes((int(each[:2], 16),)) + each[2:] for each in escaped)


def _mapped(args: Arguments) -> Iterator[Target]:
    descriptor, _, access, *_ = args
    if descriptor >= 0 and access not in _READ_ONLY:
        yield Target(descriptor)


TARGETS: Final[dict[str, Callable[[Arguments], Iterator[Target]]]] = {
    "open": _first,
    "os.open in a directory": _opened,
    "os.truncate": _first,
    "os.chmod": _permitted,
    "os.remove": _removed,
    "os.rename": _renamed,
    "os.link": _linked,
    "os.mknod": _first,
    "sqlite3.connect": _database,
    "mmap.__new__": _mapped,
}
"""By event: the files it is about. An act on a directory alone, and a new link, change no file."""
