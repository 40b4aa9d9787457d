"""The worker's three standard streams: nothing to read, and output that is in the pipe as soon as it was written.

Owns what `sys.stdout`, `sys.stderr`, `sys.stdin` and `input` are in statements, and repairs descriptors that a
statement closed. Must not know who reads the pipes. Called by `child` and, before each statement, by `main`.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from array import array
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NO_KEYBOARD = "nobody is at the keyboard of a statement; ask the user in your reply instead of calling input()"


class _Pipe(io.FileIO):
    """An unbuffered descriptor that takes everything it is given, also when a signal interrupts the write."""

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data).cast("B")
        total = len(view)
        while view:
            view = view[super().write(view) or 0 :]
        return total


def replace(spares: tuple[int, int]) -> None:
    """Puts /dev/null on 0 and copies of the pipes in `spares` on 1 and 2."""
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((null, *spares)):
        os.dup2(source, target)
    if null > 2:  # noqa: PLR2004 -- the standard streams
        os.close(null)


def repair(spares: tuple[int, int]) -> None:
    """The same, for those of the three that a statement closed."""
    if all(_is_open(descriptor) for descriptor in range(3)):
        return
    with suppress(OSError):
        for target, source in enumerate((None, *spares)):
            if source is not None and not _is_open(target):
                os.dup2(source, target)
        if not _is_open(0):
            # The lowest free descriptor is taken, so it is 0.
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def is_empty(spares: tuple[int, int]) -> bool:
    """Whether nothing is in the pipes of stdout and stderr that the host has not read."""
    return all(_waiting(descriptor) == 0 for descriptor in spares)


def _waiting(descriptor: int) -> int:
    # A pipe tells at either end how much is in it.
    number = array("i", (0,))
    ioctl(descriptor, FIONREAD, number)
    return number[0]


def install() -> None:
    """Gives Python its streams on 0, 1 and 2. Unbuffered, so that children's and C code's output keeps its place."""
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    sys.stdout = sys.__stdout__ = _text(1, "backslashreplace")
    sys.stderr = sys.__stderr__ = _text(2, "backslashreplace")
    builtins.input = no_input


def ensure() -> None:
    """Replaces streams that a statement closed or set to None; others that a statement put there stay."""
    if _unusable(sys.stdout):
        sys.stdout = _text(1, "backslashreplace")
    if _unusable(sys.stderr):
        sys.stderr = _text(2, "backslashreplace")


def _unusable(stream: object) -> bool:
    try:
        return bool(getattr(stream, "closed", stream is None))
    except Exception:
        return True


def _text(descriptor: int, errors: str) -> io.TextIOWrapper:
    pipe = _Pipe(descriptor, "w", closefd=False)
    return io.TextIOWrapper(pipe, encoding="utf-8", errors=errors, write_through=True)  # pyright: ignore[reportArgumentType] -- unbuffered, as under `python -u`


def no_input(_prompt: object = "", /) -> NoReturn:
    """What `input` is in statements."""
    raise EOFError(_NO_KEYBOARD)
