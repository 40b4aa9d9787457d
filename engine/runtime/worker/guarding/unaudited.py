"""Calls that touch something outside and of which Python raises no audit event: each is replaced by one that does.

What is found out here: `multiprocessing` starts its servers and children by `_posixsubprocess.fork_exec` alone; pipes
and devices are made, shared memory is opened, signals are sent to pidfds, and ranks and processors of processes and the
clock are set by functions without an event; and SQL itself opens files (`ATTACH`, and `VACUUM INTO`, which is an ATTACH
within), which a connection's authorizer is asked about. C code that opens files by itself stays outside, and so does a
connection that is given another authorizer.
Nothing is replaced before `install`, but for what does not tell where a file is (`install_places`). Must not know who
acts. Used by `guard`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from threading import get_ident
from types import ModuleType
from typing import Any, Final

from .routes import Route, original

Audit = Callable[[str, tuple[Any, ...]], None]
"""Is told of an event before it happens; what it raises keeps it from happening."""

_OF_PROCESSES: Final = ("setpriority", "sched_setaffinity", "sched_setscheduler", "sched_setparam")
_CALLS: Final = (
    ("os", "mkfifo", "os.mkfifo"),
    ("posix", "mkfifo", "os.mkfifo"),
    ("os", "mknod", "os.mknod"),
    ("posix", "mknod", "os.mknod"),
    *((module, name, f"os.{name}") for module in ("os", "posix") for name in _OF_PROCESSES),
    ("time", "clock_settime", "time.clock_settime"),
    ("time", "clock_settime_ns", "time.clock_settime_ns"),
    ("signal", "pidfd_send_signal", "signal.pidfd_send_signal"),
    ("_signal", "pidfd_send_signal", "signal.pidfd_send_signal"),
    ("_posixsubprocess", "fork_exec", "multiprocessing"),
    ("_posixshmem", "shm_open", "shared memory"),
    ("_posixshmem", "shm_unlink", "shared memory"),
    ("_interpreters", "create", "cpython.PyInterpreterState_New"),  # 3.13 and later raise none
)
"""Module, function, and the event that it is to raise with its arguments."""
_DIRECTORY_SETS: Final = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)


def install(audit: Audit) -> None:
    """Has each of them ask `audit` first. Called once in a process."""
    for module, name, event in _CALLS:
        _replace(_module(module), name, event, audit)


def load() -> None:
    """Loads those of their modules that next to nothing depends on, so that `install` finds them."""
    for name in ("_posixsubprocess", "_posixshmem"):
        _module(name)


def install_places(audit: Audit) -> None:
    """Has `audit` asked before a file is opened or made relative to a directory's descriptor. Called once in a process.

    To be called ahead of `own_python`, which takes what it finds for Python's own.
    """
    for module in (os, _module("posix")):
        # Each its own, because Python itself uses what `posix` has, and statements may find another one in `os`.
        _put(module, "open", _in_a_directory(original(vars(module)["open"]), audit))
    os.supports_dir_fd.add(os.open)
    for name in ("os", "posix"):
        _replace(_module(name), "mknod", "os.mknod", audit)


def _in_a_directory(opened: Callable[..., int], audit: Audit) -> Callable[..., int]:
    @wraps(opened)
    def open_in_a_directory(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            audit("os.open in a directory", (path, flags, dir_fd))
        return opened(path, flags, mode, dir_fd=dir_fd)

    return open_in_a_directory


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


def _replace(module: ModuleType | None, name: str, event: str, audit: Audit) -> None:
    function = getattr(module, name, None)
    if module is None or function is None:
        return

    function = original(function)

    @wraps(function)
    def audited(*args: object, **kwargs: object) -> object:
        audit(event, args or tuple(kwargs.values()))
        return function(*args, **kwargs)

    _put(module, name, audited)
    for supporting in _DIRECTORY_SETS:
        # The standard library asks these sets what a function of `os` can do.
        if function in supporting:
            supporting.add(audited)


def _put(module: Any, name: str, audited: Callable[..., Any]) -> None:
    found = getattr(module, name)
    if isinstance(found, Route):
        # What it leads elsewhere does not happen here.
        found.surround(audited)
    else:
        setattr(module, name, audited)


# --- SQLite ----------------------------------------------------------------------------------------------------------

_SQLITE: Final = "_sqlite3"


class Databases:
    """Connections of SQLite, which are told to ask `audit` when their module is there.

    It is loaded for nobody who does not want it, because that takes as long as several statements.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._are_watched = False

    def look(self) -> None:
        """To be called when a guard is armed: what somebody has loaded by now is taken in with its connections."""
        if _SQLITE in sys.modules:
            self._take_in(among=gc.get_objects)

    def importing(self, name: str) -> None:
        """To be called ahead of each import, in whose place that of the module is done here, and then taken in."""
        if name == _SQLITE:
            self._take_in(among=tuple)

    def _take_in(self, among: Callable[[], Sequence[object]]) -> None:
        if self._are_watched:
            return
        self._are_watched = True  # first, because the import is announced, too
        sqlite = _module(_SQLITE)
        if sqlite is None:
            self._are_watched = False
        else:
            _watch_connections(sqlite, self._audit, among())


def _watch_connections(sqlite: Any, audit: Audit, among: Sequence[object]) -> None:
    """Sets the authorizer of every connection: those that are open, and those to come, when they are ready for it."""
    for found in among:
        if issubclass(type(found), sqlite.Connection):
            _watch(found, sqlite, audit)
    connect = sqlite.connect

    @wraps(connect)
    def connect_watched(*args: Any, **kwargs: Any) -> Any:
        thread = get_ident()
        _CONNECTING.add(thread)
        try:
            connection = connect(*args, **kwargs)
        finally:
            _CONNECTING.discard(thread)
        _watch(connection, sqlite, audit)
        return connection

    for name in (_SQLITE, "sqlite3.dbapi2", "sqlite3"):
        if name in sys.modules:
            vars(sys.modules[name])["connect"] = connect_watched


_CONNECTING: Final[set[int]] = set()


def is_unwatched_connection() -> bool:
    """Whether the connection that the calling thread makes now will have no authorizer: one not made by `connect`."""
    return get_ident() not in _CONNECTING


def _watch(connection: Any, sqlite: Any, audit: Audit) -> None:
    def authorize(action: int, first: str | None, *_: str | None) -> int:
        if action == sqlite.SQLITE_ATTACH:
            # What this raises, the connection takes for a no.
            audit("sqlite3 ATTACH", (first,))
        return sqlite.SQLITE_OK

    # It may be closed, or another thread's.
    with suppress(Exception):
        connection.set_authorizer(authorize)
