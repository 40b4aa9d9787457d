"""The parts of Python that the worker itself runs on, kept from what statements make of them.

A statement may replace `compile`, `isinstance` or `os.getpid` for its own ends, and the worker's code, which finds them
in the same modules, would fail from then on at every statement. So what was replaced is put back when the statement has
ended, and given to the next one as the last had left it. What is watched: all builtins, what this package uses of the
standard library, and a recursion limit that would be too low. What else a statement may break is found out by whoever
rebuilds (`runtime.rebuild`). Used by `executor`.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from types import ModuleType
from typing import Final, NamedTuple

_USED: Final[dict[ModuleType, tuple[str, ...]]] = {
    builtins: tuple(name for name in vars(builtins) if name != "_"),
    ast: ("parse", "walk", "Expr", "Expression", "Name", "Constant", "Load"),
    linecache: ("cache", "getline", "getlines", "checkcache"),
    os: (
        "path", "getpid", "stat", "lstat", "fstat", "open", "close", "read", "dup2", "listdir", "set_inheritable",
        "waitid", "_exit", "fspath", "fsdecode", "fsencode", "pread", "readlink", "access",
        "fstatvfs", "fork", "memfd_create", "pidfd_open", "pwrite", "waitpid", "getppid", "closerange", "setsid",
    ),
    pickle: ("Pickler", "dumps"),
    signal: ("signal", "setitimer", "getsignal", "set_wakeup_fd", "valid_signals"),
    sys: ("modules", "_getframe", "exc_info"),
    threading: ("get_ident", "current_thread", "main_thread", "Lock"),
    time: ("time", "perf_counter_ns", "monotonic"),
    traceback: ("TracebackException", "StackSummary"),
}  # fmt: skip
"""At least two names of each module, because `itemgetter` gives no tuple for one."""
_MISSING: Final = object()
# Bound here, because by the time they are used the builtins may be a statement's.
_zip: Final = zip
_Anything: Final = BaseException


class _Place(NamedTuple):
    """One module's names with what they were bound to, and what looks all of them up at once."""

    names: dict[str, object]
    watched: tuple[str, ...]
    own: tuple[object, ...]
    look: Callable[[dict[str, object]], tuple[object, ...]]


class OwnPython:
    """What is there when this is made, of the given modules; of none, nothing is watched."""

    def __init__(self, modules: dict[ModuleType, tuple[str, ...]]) -> None:
        self._places = [
            _Place(vars(module), names, tuple(vars(module)[name] for name in names), itemgetter(*names))
            for module, names in modules.items()
        ]
        self._limit = sys.getrecursionlimit()
        self._theirs: list[tuple[dict[str, object], str, object]] = []
        self._their_limit = 0

    @classmethod
    def of_this_process(cls) -> OwnPython:
        """All that a worker runs on, as it is now."""
        return cls(_USED)

    @classmethod
    def of_nobody(cls) -> OwnPython:
        """Nothing: in a process that is not the statements' own somebody else may replace what he likes."""
        return cls({})

    def take_over(self) -> None:
        """A statement has ended: puts back what it replaced. O(what is watched), in C where nothing was replaced."""
        for place in self._places:
            try:
                # By identity where nothing was replaced; what claims to be equal to what it replaced goes unnoticed.
                if place.look(place.names) == place.own:
                    continue
            except _Anything:
                pass  # because a name was deleted, or a replacement cannot be compared
            self._put_back(place)
        if self._places and sys.getrecursionlimit() < self._limit:
            self._their_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(self._limit)

    def _put_back(self, place: _Place) -> None:
        for name, own in _zip(place.watched, place.own):
            theirs = place.names.get(name, _MISSING)
            if theirs is not own:
                self._theirs.append((place.names, name, theirs))
                place.names[name] = own

    def give_back(self) -> None:
        """The next statement begins: gives it what the last had made of it."""
        theirs, self._theirs = self._theirs, []
        for place, name, value in theirs:
            if value is _MISSING:
                place.pop(name, None)
            else:
                place[name] = value
        if self._their_limit:
            limit, self._their_limit = self._their_limit, 0
            # It may be too low for where we are.
            with suppress(RecursionError):
                sys.setrecursionlimit(limit)
