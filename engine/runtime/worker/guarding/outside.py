"""Acts outside the namespace: audit events, calls without one, and the files that each would change.

The first table lists the events and calls that the guard stops, and which arguments make one harmless. The second part
finds the files that an act is about to change, by the arguments of its event (`writes.touching`).

The third part replaces calls that Python does not audit by ones that raise an event. `multiprocessing` starts its
servers and children with `_posixsubprocess.fork_exec` alone. Making pipes and devices, opening shared memory, sending
signals to pidfds, setting priorities, processors and the clock have no events. SQL itself opens files (`ATTACH`, and
`VACUUM INTO`, which attaches), which a connection's authorizer decides. C code that opens files is not seen, and
neither is a connection with another authorizer. Nothing is replaced before `install`, apart from calls that do not tell
a file's directory (`install_places`).

Must not know who acts, nor what happens then. Used by `guard` and `writes.touching`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from threading import get_ident
from types import ModuleType
from typing import Any, Final, NamedTuple

from ....core.text import cut_line
from ....files.pins import path_of
from ...system.descriptors import is_memory_file
from .routes import Route, original

Arguments = tuple[Any, ...]
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Any of these flags means that a file is opened for changes."""
_HARMLESS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr")
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
UNSEEN: Final = frozenset((*_PROCESSES, "os.mkdir", "os.rmdir", "os.symlink", "os.mkfifo")) - {
    "os.kill",
    "os.killpg",
    "signal.pidfd_send_signal",
}
"""Events of acts that may change files, directories or links which the event does not name as TARGETS does."""
IMPORT: Final = "import"
"""With the path of the file if a module in C is loaded."""
LOADED: Final = "ctypes.dlopen"
_NETWORK: Final = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "syslog.syslog")
_MACHINE: Final = ("socket.sethostname", "time.clock_settime", "time.clock_settime_ns")
STAGED: Final = "rewindow.open"
"""Our own `open` raises it instead of the built-in's event, because the host does the writing."""
_NAMED: Final = frozenset(("open", STAGED, *_FILES))
_encode: Final = os.fsencode  # bound here, because statements may replace it
_BESIDE_A_DATABASE: Final = (b"", b"-journal", b"-wal")
_READ_ONLY: Final = frozenset((1, 3))
"""`mmap.ACCESS_READ` and `mmap.ACCESS_COPY`, without loading the module."""
Audit = Callable[[str, tuple[Any, ...]], None]
"""Called with an event before the act; an exception prevents the act."""
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
"""Module, function, and the event that it will raise with its arguments."""
_DIRECTORY_SETS: Final = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
# --- SQLite ----------------------------------------------------------------------------------------------------------
_SQLITE: Final = "_sqlite3"
_CONNECTING: Final[set[int]] = set()


def _opens_for_writing(args: Arguments) -> bool:
    path, mode, flags = args
    # Checked first, because most files are opened for reading.
    writes = flags & WRITING if isinstance(flags, int) and flags else mode and set(mode) & set("wax+")
    # A number is an open descriptor: opening its file was allowed or stopped before.
    if not writes or isinstance(path, int):
        return False
    # A staged file may be a file in memory, which is opened for each file object on it.
    return _text(path) not in _HARMLESS and not is_memory_file(_text(path))


def _removes(args: Arguments) -> bool:
    return not is_memory_file(_text(args[0]))


def _truncates(args: Arguments) -> bool:
    path = args[0]
    try:
        return not is_memory_file(path_of(path) if isinstance(path, int) else _text(path))
    except OSError:
        return True


def _makes_directory(args: Arguments) -> bool:
    # mkdir of an existing path only fails, which `makedirs(exist_ok=True)` relies on.
    return not os.path.lexists(args[0])


def _names_database(args: Arguments) -> bool:
    # A name that the database computes is unknown here, and so counts as outside.
    return _text(args[0]) not in _IN_MEMORY


def _changes_another(args: Arguments) -> bool:
    return args[0] not in (0, os.getpid())


def _ranks_another(args: Arguments) -> bool:
    which, who, *_ = args
    return which != os.PRIO_PROCESS or _changes_another((who,))


def _always(_args: Arguments) -> bool:
    return True


STOPPED: Final[dict[str, Callable[[Arguments], bool]]] = {
    **dict.fromkeys((*_FILES, *_PROCESSES, *_NETWORK, *_MACHINE), _always),
    **dict.fromkeys(("os.sched_setaffinity", "os.sched_setscheduler", "os.sched_setparam"), _changes_another),
    "open": _opens_for_writing,
    STAGED: _opens_for_writing,
    "os.remove": _removes,
    "os.truncate": _truncates,
    "os.mkdir": _makes_directory,
    "sqlite3.connect": _names_database,
    "sqlite3 ATTACH": _names_database,
    "os.setpriority": _ranks_another,
    "resource.prlimit": _changes_another,
}
"""By event: whether it touches something outside, given its arguments."""


def _text(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except (TypeError, ValueError):
        return repr(path)


def is_bytecode(name: str, args: Arguments) -> bool:
    """Whether this is an import that saves its bytecode. After an OSError it continues without saving."""
    return name in ("open", "os.mkdir", "os.rename") and "__pycache__" in _text(args[0])


def described(name: str, args: Arguments) -> str:
    """The event and its path, in a line."""
    is_named = name in _NAMED and bool(args) and args[0] is not None
    name = "open" if name == STAGED else name
    return f"{name} {cut_line(_text(args[0]), _PATH_CHARS)}" if is_named else name


# --- files that an act changes ----------------------------------------------------------------------------------------


class Target(NamedTuple):
    """The path of an act. `directory` is a descriptor or -1; `follows`: the act follows a link of that name."""

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
    """A database, and SQLite's files for a transaction beside it."""
    name = b"" if args[0] is None else _encode(args[0])
    # Both, because only the connection knows which one it is.
    for each in {name, _of_uri(name)} - {b"", b":memory:"}:
        yield from (Target(each + end) for end in _BESIDE_A_DATABASE)


def _of_uri(name: bytes) -> bytes:
    """The path of a name that is a URI; empty if it is not one."""
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
"""The files of each event. An act on a directory alone, and a new link, change no file."""


# --- calls without an audit event -------------------------------------------------------------------------------------


def install(audit: Audit) -> None:
    """Make each of them call `audit` first. Once in a process."""
    for module, name, event in _CALLS:
        _replace(_module(module), name, event, audit)


def load() -> None:
    """Load, in the zygote, those of their modules that need almost no others, so that `install` finds them loaded."""
    for name in ("_posixsubprocess", "_posixshmem"):
        _module(name)


def install_places(audit: Audit) -> None:
    """Call `audit` before a file is opened or created relative to a directory's descriptor. Once in a process.

    Call it before `OwnPython` is made, which takes the present functions as Python's own.
    """
    for module in (os, _module("posix")):
        # Both modules, because Python itself uses `posix`, and `os` may have another function.
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
        # The standard library looks up features of `os` functions in these sets.
        if function in supporting:
            supporting.add(audited)


def _put(module: Any, name: str, audited: Callable[..., Any]) -> None:
    found = getattr(module, name)
    if isinstance(found, Route):
        # A redirected act does not happen here.
        found.surround(audited)
    else:
        setattr(module, name, audited)


class Databases:
    """SQLite connections, which call `audit` once their module is loaded.

    The module is not loaded just for this, because that takes as long as several statements.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._are_watched = False

    def look(self) -> None:
        """Watch the module and its connections if it is loaded. Call it when a guard is armed."""
        if _SQLITE in sys.modules:
            self._take_in(among=gc.get_objects)

    def importing(self, name: str) -> None:
        """Call it before each import. If the name is SQLite's module, imports it here, and watches its connections."""
        if name == _SQLITE:
            self._take_in(among=tuple)

    def _take_in(self, among: Callable[[], Sequence[object]]) -> None:
        if self._are_watched:
            return
        self._are_watched = True  # first, because this import raises an event too
        sqlite = _module(_SQLITE)
        if sqlite is None:
            self._are_watched = False
        else:
            _watch_connections(sqlite, self._audit, among())


def _watch_connections(sqlite: Any, audit: Audit, among: Sequence[object]) -> None:
    """Set the authorizer of every open connection, and of later ones as soon as they are ready."""
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


def is_unwatched_connection() -> bool:
    """Whether the connection that the calling thread makes now will have no authorizer: `connect` did not make it."""
    return get_ident() not in _CONNECTING


def _watch(connection: Any, sqlite: Any, audit: Audit) -> None:
    def authorize(action: int, first: str | None, *_: str | None) -> int:
        if action == sqlite.SQLITE_ATTACH:
            # The connection takes an exception as a refusal.
            audit("sqlite3 ATTACH", (first,))
        return sqlite.SQLITE_OK

    # Because it may be closed, or belong to another thread.
    with suppress(Exception):
        connection.set_authorizer(authorize)
