"""The guard of replays and of plan mode: an audit hook that stops what would touch anything outside the namespace.

Bookkeeping, not a boundary: C code that opens files itself goes unseen. Owns the list of what is stopped. Must not know
which statement runs. Armed by `main` while a restored history runs again, and for statements in plan mode.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_HARMLESS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr")
_IN_MEMORY: Final = (":memory:", "")

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
"""What a statement sees instead of the effect; given what it was kept from."""


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


class OutsideGuard:
    """The hook and its switch; `stops` collects one phrase for each thing stopped since it was armed."""

    def __init__(self) -> None:
        self._armed = False
        self._installed = False
        self._bytecode = sys.dont_write_bytecode
        self._refusal: Refusal = replaying
        self.stops: list[str] = []

    def arm(self, refusal: Refusal) -> None:
        self._refusal = refusal
        if not self._installed:
            # A hook cannot be removed, so a worker that never replays never pays for one.
            sys.addaudithook(self._audit)
            self._installed = True
        self.stops = []
        # Imports would write bytecode files, and be stopped for it.
        self._bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        self._armed = True

    def disarm(self) -> None:
        if self._armed:
            self._armed = False
            sys.dont_write_bytecode = self._bytecode

    def _audit(self, name: str, args: tuple[Any, ...]) -> None:
        if not self._armed:
            return
        check = _STOPPED.get(name)
        if check is None or not check(args):
            return
        phrase = f"was kept from {name} {_text(args[0])[:200] if args and name in ('open', *_FILES) else ''}".rstrip()
        self.stops.append(phrase)
        raise self._refusal(phrase)
