"""Notices which files the code of a live statement is about to change, and tells the host before it happens.

Owns the record of one statement at a time: which files were noticed. What a statement writes through the host (`write`,
`edit`, the injected `open`) never comes here. Must not know audit hooks (`guard` calls `notice` before each act of work
that is free) nor what the host makes of it. Opened and closed around each live statement by `interpreter`.

The host is told the place alone. It reads the file itself, because a statement can send such a message too, and a
rewind writes what the file is said to have held. So the statement waits until the host has read it (`Noted`).

The hard part is that any code may be what is about to write: a signal handler or a finalizer in the middle of ours, a
thread while another asks the host something, a process that the statement forked. Why nothing is lost or hangs:

1. The host looks without waiting for the worker, also while it answers an effect. Whichever thread reads the socket
   puts the message where the waiting thread finds it (`channel.Inbox`).
2. An exception that a signal handler raises during the wait keeps the act from happening. The file does not count as
   noticed then.
3. Two threads may be about to write the same file. The second waits until the host has looked for the first, or else it
   would write before that. It waits a bounded time, because the first may wait for what the second has to do.
4. The same thread, in a handler or finalizer, passes that lock and tells by itself. In the middle of reading the socket
   it must not read it again: such an act is counted, and the host is told of no file.
5. Whatever fails here is counted, and the host says so; `guard` lets the act happen. A forked process is not the
   statement's.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from ....files.safe_open import Pinned, pinned
from ..channel import Inbox
from ..guarding.outside import TARGETS, Target
from ..interrupts import Interrupts
from ..protocol import TOUCHED_FILES, Touching

_PATIENCE: Final = 1.0
"""Seconds."""
_LOOKING: Final = 60.0
"""Seconds for which the host may look at one file, which can be on a slow file system."""
_TURN: Final = 0.1
"""Seconds after which the wait can be interrupted."""
_OUR_OWN: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What keeps us from looking and need not keep the act from happening."""
_SYSTEM: Final = (b"/dev/", b"/proc/", b"/sys/")
_BYTECODE: Final = b"/__pycache__/"
# Bound here, because a statement may replace them.
_encode, _join, _real = os.fsencode, os.path.join, os.path.realpath
_OWN_DESCRIPTORS: Final = b"/proc/self/fd"


class Sending(Protocol):
    """What is used of `effects.Transport`."""

    @property
    def ours(self) -> bool: ...

    @property
    def inbox(self) -> Inbox: ...

    def send(self, message: Touching) -> None: ...


class Noticed(NamedTuple):
    """What a statement did by itself: whether it acted outside, which noticed files it has open for writing still, and
    how many further acts on files there were."""

    acted: bool = False
    writing: tuple[bytes, ...] = ()
    more: int = 0


class WriteNotices:
    """The files that statements write by themselves, but for those below the directories `left_out`.

    `own_process`: whatever is open there, statements have opened.
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
        self.database = ""
        """The path of the database that was opened last."""

    def take(self) -> Noticed:
        """The statement has ended: all about it, and nothing of it is known any more."""
        if self._acted or self._writing:
            found = {place for place in _open_for_writing() if not self._is_left_out(place)}
            # Also what nobody could notice, such as a database that another one has attached.
            wanted = found if self._own_process else found & self._noticed.union(self._writing)
            self._writing = tuple(sorted(wanted))
        noticed = Noticed(self._acted, self._writing, self._more)
        self._noticed = set()
        self._more = 0
        self._acted = False
        return noticed

    def notice(self, name: str, args: tuple[Any, ...]) -> None:
        """The calling thread is about to do this, by the name of its audit event. May raise whatever went wrong."""
        targets = TARGETS.get(name)
        if name == "sqlite3.connect":
            self.database = os.path.abspath(os.fsdecode(args[0]))
        if targets is None:
            self._acted = True
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
            if found is not None and found.kind in ("file", "nothing") and not self._is_left_out(found.place):
                self._tell_once(found)

    def _notice_move(self, source: Target, target: Target) -> bool:
        """Where a directory gets another name, so do the files below it; False where it is none."""
        with _pinned(source) as directory, _pinned(target) as named:
            if directory is None or named is None or directory.kind != "directory":
                return False
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
        return place.startswith(self._left_out) or _BYTECODE in place

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
        """Has the host look at the file. Raises RuntimeError or TimeoutError where it cannot."""
        inbox = self._transport.inbox
        if inbox.is_reading:
            raise RuntimeError("the host cannot be asked in the middle of an answer")
        number = next(self._numbers)
        with self._interrupts.held():
            self._transport.send(Touching(number=number, path=place))
        end = time.monotonic() + _LOOKING
        while True:
            with self._interrupts.held():
                if inbox.is_noted(number, _TURN):
                    return
            if time.monotonic() > end:
                raise TimeoutError("the host has not looked at a file in time")


@contextmanager
def _pinned(target: Target) -> Generator[Pinned | None]:
    """None where nobody can tell what is there, because then the act fails as well."""
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
    """The files that this process has open, and not for reading alone."""
    found: set[bytes] = set()
    # Whatever a statement has made of what is used here: it has ended, and its record counts for more.
    with suppress(Exception):
        for name in map(int, os.listdir(_OWN_DESCRIPTORS)):
            with suppress(OSError):  # because a thread may have closed it
                if fcntl.fcntl(name, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                    file = pinned(name)
                    file.close()
                    if file.kind == "file":
                        found.add(file.place)
    return found
