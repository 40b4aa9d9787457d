"""Notices the files that a live statement's own code is about to change, and reports each to the host first.

Owns the record of one statement at a time: the noticed files. Writes through the host (`write`, `edit`, the injected
`open`) never come here. Must not know audit hooks (`guard` calls `notice` before each act of free work), or what the
host does with a report. The interpreter opens and closes it around each live statement.

A process that is started, and a function that makes or removes a directory or a link, are reported once for each
statement (`ANYTHING`): the host then compares the session's directories. So is a statement that runs while a library
with C code is loaded, or loads one (`BY_LIBRARY`), because Python does not see the files that it opens.

A report has only the path. The host reads the file itself, because a statement can send such a message too, and a
rewind writes the recorded content. So the statement waits until the host has read the file (`Noted`).

Any code may be about to write: a signal handler or finalizer in the middle of ours, a thread while another one asks the
host, a process that the statement forked. Nothing is lost and nothing hangs, because:

1. The host reads the file without waiting for the worker, even while it answers an effect. The thread that reads the
   socket puts the answer where the waiting thread finds it (`channel.Inbox`).
2. If a signal handler raises during the wait, the act does not happen, and the file does not count as noticed.
3. If two threads are about to write the same file, the second waits for the report of the first. Otherwise it would
   write before the host has read the file. The wait is limited, because the first may wait for the second.
4. The same thread, in a handler or finalizer, passes that lock and reports by itself. If it interrupted a read of the
   socket, it must not read there again: such an act is only counted, without its file.
5. Any failure here is counted, and the host reports the number; `guard` lets the act happen. A forked process does not
   count as the statement.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import count
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

from ....files.safe_open import Pinned, pinned
from ....files.spellings import stored_path
from ....log.statements import ANYTHING, BY_LIBRARY
from ...system.descriptors import is_memory_file, open_descriptors
from ..channel import Inbox
from ..guarding.outside import IMPORT, LOADED, TARGETS, UNSEEN, Target
from ..interrupts import Interrupts
from ..protocol import TOUCHED_FILES, Touching

_UNNAMED: Final = Pinned(ANYTHING, "nothing")
_PATIENCE: Final = 1.0
"""Seconds to wait for another thread's report."""
_LOOKING: Final = 60.0
"""The host's time limit for reading one file, in seconds; the file system may be slow."""
_TURN: Final = 0.1
"""The wait reacts to interrupts at this interval, in seconds."""
_OUR_OWN: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Failures of a report that do not prevent the act."""
_SYSTEM: Final = (b"/dev/", b"/proc/", b"/sys/")
_BYTECODE: Final = b"/__pycache__/"
# Bound here, because statements may replace them.
_encode, _decode, _join, _real = os.fsencode, os.fsdecode, os.path.join, os.path.realpath
_IN_C: Final = tuple(EXTENSION_SUFFIXES)
_STANDARD: Final = "lib-dynload"
"""The directory of the standard library's modules in C, which open files by Python's functions."""


class Sending(Protocol):
    """The part of `effects.Transport` that is used here."""

    @property
    def ours(self) -> bool: ...

    @property
    def inbox(self) -> Inbox: ...

    def send(self, message: Touching) -> None: ...


class Noticed(NamedTuple):
    """A statement's own acts: whether it acted outside, the noticed files that it still has open for writing, and the
    number of further acts on files."""

    acted: bool = False
    writing: tuple[bytes, ...] = ()
    more: int = 0


class WriteNotices:
    """The files that statements write directly, except those below the directories `left_out`.

    `own_process`: every file that is open in the process was opened by a statement.
    """

    def __init__(
        self, transport: Sending, interrupts: Interrupts, *, own_process: bool, left_out: tuple[str, ...] = ()
    ) -> None:
        self._left_out = (*_SYSTEM, *(_encode(_join(_real(each), "")) for each in left_out))
        self._transport = transport
        self._own_process = own_process
        self._interrupts = interrupts
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._noticed: set[bytes] = set()
        self._writing: tuple[bytes, ...] = ()
        self._more = 0
        self._acted = False
        self._own = _libraries()
        self._has_libraries = False
        self._searched = 0
        """The number of modules at the last search for libraries."""
        self.database = ""
        """The path of the last opened database."""

    def begin(self) -> None:
        """Begin a statement, on its thread."""
        if not self._has_libraries and len(sys.modules) != self._searched:
            self._searched = len(sys.modules)
            self._has_libraries = not _libraries() <= self._own
        if self._has_libraries:
            try:
                self._tell_of_library()
            except (OSError, RuntimeError):  # a time limit is an OSError
                self._more += 1

    def take(self) -> Noticed:
        """End the statement: return its acts, and forget them."""
        if self._acted or self._writing:
            found = {place for place in _open_for_writing() if not self._is_left_out(place)}
            # Including files that cannot be noticed, such as a database attached to another one.
            wanted = found if self._own_process else found & self._noticed.union(self._writing)
            self._writing = tuple(sorted(wanted))
        noticed = Noticed(self._acted, self._writing, self._more)
        self._noticed = set()
        self._more = 0
        self._acted = False
        return noticed

    def notice(self, name: str, args: tuple[Any, ...]) -> None:
        """Notice an act that the calling thread is about to do, by its audit event. May raise any failure."""
        if name == LOADED or (name == IMPORT and _is_library(args[1])):
            self._has_libraries = True
            self._tell_of_library()
        if name in (LOADED, IMPORT):
            return
        targets = TARGETS.get(name)
        if name == "sqlite3.connect":
            self.database = os.path.abspath(os.fsdecode(args[0]))
        if targets is None:
            self._acted = True
            if name in UNSEEN and self._transport.ours:
                self._tell_once(_UNNAMED)
            return
        try:
            found = tuple(targets(args))
            self._acted = self._acted or bool(found)
            if not self._transport.ours:
                return
            if name != "os.rename" or not self._notice_move(*found):
                for target in found:
                    self._notice(target)
        except Exception:
            self._more += 1
            raise

    def _notice(self, target: Target) -> None:
        with _pinned(target) as found:
            if found is None or self._is_left_out(found.place):
                return
            if found.kind in ("file", "nothing"):
                self._tell_once(found)
                stored = _encode(stored_path(_decode(found.place)))
                if stored != found.place:  # it is written by another spelling, or its spelling changes
                    self._tell_once(Pinned(stored, "file"))
            else:  # such as a link that is removed, or a directory that gets other permissions
                self._tell_once(_UNNAMED)

    def _tell_of_library(self) -> None:
        if self._transport.ours:
            self._tell_once(Pinned(BY_LIBRARY, "nothing"))

    def _notice_move(self, source: Target, target: Target) -> bool:
        """Notice the files below a directory that is renamed; return False if it is not a directory."""
        with _pinned(source) as directory, _pinned(target) as named:
            if directory is None or named is None or directory.kind != "directory":
                return False
            self._tell_once(_UNNAMED)  # for the directories
            for path in _files_below(directory.place):
                self._notice(Target(path, follows=False))
                coming = named.place + path.removeprefix(directory.place)
                if not self._is_left_out(coming):
                    self._tell_once(Pinned(coming, "nothing"))
                if len(self._noticed) >= TOUCHED_FILES:
                    self._more += 1
                    break
            return True

    def _is_left_out(self, place: bytes) -> bool:
        return place.startswith(self._left_out) or _BYTECODE in place or is_memory_file(_decode(place))

    def _tell_once(self, found: Pinned) -> None:
        if found.place in self._noticed:
            return
        if len(self._noticed) >= TOUCHED_FILES:
            self._more += 1
            return
        is_alone = self._lock.acquire(timeout=_PATIENCE)
        try:
            if found.place not in self._noticed:
                self._tell(found.place)
                self._noticed.add(found.place)
        finally:
            if is_alone:
                self._lock.release()

    def _tell(self, place: bytes) -> None:
        """Report the file, and wait until the host has read it. Raises RuntimeError or TimeoutError if it cannot."""
        inbox = self._transport.inbox
        if inbox.is_reading:
            raise RuntimeError("the worker cannot send a request while receiving an answer")
        number = next(self._numbers)
        with self._interrupts.held():
            self._transport.send(Touching(number=number, path=place))
        end = time.monotonic() + _LOOKING
        while True:
            with self._interrupts.held():
                if inbox.is_noted(number, _TURN):
                    return
            if time.monotonic() > end:
                raise TimeoutError("the host did not check a file in time")


@contextmanager
def _pinned(target: Target) -> Generator[Pinned | None]:
    """Pin the file of an act; None if that fails, because then the act fails too."""
    directory = None if target.directory < 0 else target.directory
    try:
        found = pinned(target.path, directory, follows=target.follows)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, OSError) and error.errno in _OUR_OWN:
            raise
        yield None
        return
    try:
        yield found
    finally:
        found.close()


def _libraries() -> frozenset[str]:
    """The names of loaded modules in C that are not the standard library's."""
    found = sys.modules.copy().items()  # a statement may put anything there
    plain = ((name, vars(module).get("__file__")) for name, module in found if type(module) is ModuleType)
    return frozenset(name for name, file in plain if isinstance(file, str) and _is_library(file))


def _is_library(file: str | None) -> bool:
    return bool(file and file.endswith(_IN_C) and os.path.basename(os.path.dirname(file)) != _STANDARD)


def _files_below(place: bytes) -> Iterator[bytes]:
    waiting = [place]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path


def _open_for_writing() -> set[bytes]:
    """The files that this process has open for writing."""
    found: set[bytes] = set()
    # Catches everything, because the statement may have replaced functions used here, and its record must be made.
    with suppress(Exception):
        for name in open_descriptors():
            with suppress(OSError):  # because a thread may have closed it
                if fcntl.fcntl(name, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                    file = pinned(name)
                    file.close()
                    if file.kind == "file":
                        found.add(file.place)
    return found
