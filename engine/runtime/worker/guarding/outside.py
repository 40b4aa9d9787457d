"""What counts as touching something outside: the audit events and calls that the guard stops, as one table.

Owns the list, and which arguments make a listed event harmless. Must not know who acts or what is done about it. Used
by `guard`, and by `unaudited` for the calls of which Python raises no event.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from ....core.text import cut_line

Arguments = tuple[Any, ...]

WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Any of these flags says that a file is opened to be changed."""
_HARMLESS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr")
_DESCRIPTORS: Final = "/proc/self/fd/"
_MEMORY_FILE: Final = "/memfd:"
_IN_MEMORY: Final = (":memory:", "")
_PATH_CHARS: Final = 200

_FILES: Final = (
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.symlink", "os.link", "os.chmod", "os.chown",
    "os.utime", "os.setxattr", "os.removexattr", "os.mkfifo", "os.mknod", "shared memory", "sqlite3.connect",
    "sqlite3 ATTACH",
)  # fmt: skip
_PROCESSES: Final = (
    "subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.system", "os.spawn", "pty.spawn",
    "os.kill", "os.killpg", "signal.pidfd_send_signal", "multiprocessing", "cpython.PyInterpreterState_New",
)  # fmt: skip
_NETWORK: Final = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "syslog.syslog")
_MACHINE: Final = ("socket.sethostname", "time.clock_settime", "time.clock_settime_ns")


def _opens_for_writing(args: Arguments) -> bool:
    path, mode, flags = args
    # First, because most files are opened to be read.
    writes = flags & WRITING if isinstance(flags, int) and flags else mode and set(mode) & set("wax+")
    # A number is a descriptor that is open already: opening it for writing was let through or stopped before.
    if not writes or isinstance(path, int):
        return False
    return _text(path) not in _HARMLESS and not _is_in_memory(_text(path))


def _is_in_memory(path: str) -> bool:
    """Whether it is a file in memory that is opened again, as what `open` of statements writes is at first."""
    if not path.startswith(_DESCRIPTORS):
        return False
    try:
        return os.readlink(path).startswith(_MEMORY_FILE)
    except OSError:
        return False


def _makes_directory(args: Arguments) -> bool:
    # mkdir of what exists only fails, which `makedirs(exist_ok=True)` relies on.
    return not os.path.lexists(args[0])


def _names_database(args: Arguments) -> bool:
    # A name that is worked out by the database itself is not told beforehand.
    return _text(args[0]) not in _IN_MEMORY


def _changes_another(args: Arguments) -> bool:
    return args[0] not in (0, os.getpid())


def _ranks_another(args: Arguments) -> bool:
    which, who, *_ = args
    return which != os.PRIO_PROCESS or _changes_another((who,))


def _always(_args: Arguments) -> bool:
    return True


def _text(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except (TypeError, ValueError):
        return repr(path)


STAGED: Final = "rewindow.open"
"""Raised by our own `open` in place of the event of the built-in: what it writes, the host does."""

STOPPED: Final[dict[str, Callable[[Arguments], bool]]] = {
    **dict.fromkeys((*_FILES, *_PROCESSES, *_NETWORK, *_MACHINE), _always),
    **dict.fromkeys(("os.sched_setaffinity", "os.sched_setscheduler", "os.sched_setparam"), _changes_another),
    "open": _opens_for_writing,
    STAGED: _opens_for_writing,
    "os.mkdir": _makes_directory,
    "sqlite3.connect": _names_database,
    "sqlite3 ATTACH": _names_database,
    "os.setpriority": _ranks_another,
    "resource.prlimit": _changes_another,
}
"""By event: whether it touches something outside, given its arguments."""

_NAMED: Final = frozenset(("open", STAGED, *_FILES))


def is_bytecode(name: str, args: Arguments) -> bool:
    """Whether this is an import that keeps what it compiled, which it does without where an OSError refuses it."""
    return name in ("open", "os.mkdir", "os.rename") and "__pycache__" in _text(args[0])


def described(name: str, args: Arguments) -> str:
    """The event with the path it is about, in a line."""
    is_named = name in _NAMED and bool(args) and args[0] is not None
    name = "open" if name == STAGED else name
    return f"{name} {cut_line(_text(args[0]), _PATH_CHARS)}" if is_named else name
