"""The guard of replays and of plan mode: an audit hook that stops what would touch anything outside the namespace.

Bookkeeping, not a boundary: C code that opens files itself goes unseen. Owns the list of what is stopped. Must not know
which statement runs. Armed by `interpreter` while a restored history runs again, and for statements in plan mode.

A hook cannot be removed and sees every thread of its process. So there is one for all guards, added when the first is
armed: a worker that never replays never pays for it. In a worker a guard stands before every thread; in a process that
is not the statement's own, only before the thread that armed it, because the others are the host's.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from ..cutting import cut_line

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_HARMLESS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr")
_IN_MEMORY: Final = (":memory:", "")
_PATH_CHARS: Final = 200

_FILES: Final = (
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.symlink", "os.link", "os.chmod", "os.chown",
    "os.utime", "os.setxattr", "os.removexattr", "sqlite3.connect",
)  # fmt: skip
_PROCESSES: Final = (
    "subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.system", "os.spawn", "pty.spawn",
    "os.kill", "os.killpg",
)  # fmt: skip
_NETWORK: Final = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")


class ReplayEffect(RuntimeError):  # noqa: N818 -- the name is the specification's (engine semantics, section 7)
    """Raised in a statement that runs again and would touch something outside; a replay never does."""


Refusal = Callable[[str], Exception]
"""Makes the exception that the statement sees instead of the effect, given what it was kept from."""


def replaying(phrase: str) -> Exception:
    """The refusal of a replay."""
    return ReplayEffect(f"a replay touches nothing outside; this statement {phrase}")


def planning(phrase: str) -> Exception:
    """The refusal of plan mode."""
    return PermissionError(f"plan mode changes nothing outside; this statement {phrase}")


def _opens_for_writing(args: tuple[Any, ...]) -> bool:
    path, mode, flags = args
    # A number is a descriptor that is open already: opening it for writing was let through or stopped before.
    if isinstance(path, int) or _text(path) in _HARMLESS:
        return False
    return bool(flags & _WRITING) if isinstance(flags, int) and flags else bool(mode and set(mode) & set("wax+"))


def _makes_directory(args: tuple[Any, ...]) -> bool:
    # mkdir of what exists only fails, which `makedirs(exist_ok=True)` relies on.
    return not os.path.lexists(args[0])


def _opens_database(args: tuple[Any, ...]) -> bool:
    return _text(args[0]) not in _IN_MEMORY


def _always(_args: tuple[Any, ...]) -> bool:
    return True


def _text(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except (TypeError, ValueError):
        return repr(path)


_STOPPED: Final[dict[str, Callable[[tuple[Any, ...]], bool]]] = {
    **dict.fromkeys((*_FILES, *_PROCESSES, *_NETWORK), _always),
    "open": _opens_for_writing,
    "os.mkdir": _makes_directory,
    "sqlite3.connect": _opens_database,
}


_EVERY_THREAD: Final = 0
"""In place of a thread's identifier, which is never 0."""


class OutsideGuard:
    """A switch; `stops` collects one phrase for each thing stopped since it was armed.

    With `own_thread` it stops what the thread that armed it does, else what any thread of the process does.
    """

    def __init__(self, *, own_thread: bool = False) -> None:
        self._own_thread = own_thread
        self._armed_for: int | None = None
        self._refusal: Refusal = replaying
        self.stops: list[str] = []

    def arm(self, refusal: Refusal) -> None:
        self._refusal = refusal
        self.stops = []
        self._armed_for = threading.get_ident() if self._own_thread else _EVERY_THREAD
        _HOOK.add(self._armed_for, self)

    def disarm(self) -> None:
        if self._armed_for is not None:
            _HOOK.remove(self._armed_for)
            self._armed_for = None

    def audit(self, name: str, args: tuple[Any, ...]) -> None:
        """Raises the refusal for what touches something outside."""
        check = _STOPPED.get(name)
        if check is None or not check(args):
            return
        path = cut_line(_text(args[0]), _PATH_CHARS) if args and name in ("open", *_FILES) else ""
        phrase = f"was kept from {name} {path}".rstrip()
        self.stops.append(phrase)
        raise self._refusal(phrase)


class _Hook:
    """The process's audit hook, with the guards that are armed, by thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed = False
        self._guards: dict[int, OutsideGuard] = {}
        self._bytecode = sys.dont_write_bytecode

    def add(self, thread: int, guard: OutsideGuard) -> None:
        with self._lock:
            if not self._installed:
                sys.addaudithook(self._audit)
                self._installed = True
            if not self._guards:
                # Imports would write bytecode files, and be stopped for it.
                self._bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
            self._guards[thread] = guard

    def remove(self, thread: int) -> None:
        with self._lock:
            del self._guards[thread]
            if not self._guards:
                sys.dont_write_bytecode = self._bytecode

    def _audit(self, name: str, args: tuple[Any, ...]) -> None:
        if self._guards:
            guard = self._guards.get(_EVERY_THREAD) or self._guards.get(threading.get_ident())
            if guard is not None:
                guard.audit(name, args)


_HOOK: Final = _Hook()
