"""One advisory lock per session between processes: a file under `locks/` that contains `<pid>\\n` while it is locked.

`flock`, because it ends with its process however that dies, and because a POSIX record lock is lost as soon as anything
in the process opens and closes the same file. Its price: a forked child shares the lock. So descriptors are
close-on-exec, and a fork hook closes them in a child that goes on as Python. Must not know what a session is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...core.errors import SessionInUseError, StoreError
from ...core.ids import SessionId
from .database import make_directory
from .schema import digest_of

_NAME: Final = re.compile("[A-Za-z0-9_-]{1,128}")
"""Ids that can name a file."""
_OPEN: Final[set[int]] = set()
"""Descriptors of all locks of this process, for the fork hook."""


def _forget_in_child() -> None:
    for descriptor in _OPEN:
        os.close(descriptor)
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def owners(database: str) -> dict[SessionId, int]:
    """Return the process that has each locked session of the database, by the lock files. Raises OSError.

    It only reads the files: trying a lock could keep out a process that tries at the same moment. So a file left by a
    crash counts if another process has the same pid now.
    """
    prefix, suffix = f"{os.path.basename(database)}.", ".lock"
    found: dict[SessionId, int] = {}
    try:
        names = sorted(os.listdir(_directory(database)))
    except FileNotFoundError:
        return found
    for name in names:
        if name.startswith(prefix) and name.endswith(suffix):
            pid = _recorded(os.path.join(_directory(database), name))
            if pid is not None and _runs(pid):
                found[SessionId(name[len(prefix) : -len(suffix)])] = pid
    return found


@dataclass(slots=True, eq=False)
class _LockFile:
    """A locked file with `names` hard links: one for each session that it locks."""

    descriptor: int
    names: int = 1


class SessionLocks:
    """The locks of one database. Files are removed on release; those left by a crash are taken over.

    Thousands of sessions are locked for a moment by one file with many hard links, because making a file costs the file
    system 30 times as much as one more link. A process that opens any of the names finds the same, locked file. A crash
    leaves a file with many names and no lock. A process that takes over one of the names first gives it a new file;
    otherwise it would lock the other sessions, too.
    """

    __slots__ = ("_directory", "_files", "_prefix")

    def __init__(self, database: str) -> None:
        self._directory = _directory(database)
        self._prefix = os.path.basename(database)
        self._files: dict[SessionId, _LockFile] = {}

    def acquire(self, session_id: SessionId) -> None:
        """Take the lock at once or not at all.

        Raises:
            SessionInUseError: another process, or another store of this one, has it.
            StoreError: the lock file cannot be made.
        """
        path = self._path(session_id)
        try:
            make_directory(self._directory)
            descriptor = self._locked(path, session_id)
            try:
                os.fchmod(descriptor, 0o600)  # because the umask may have taken even the owner's rights
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
            except OSError:
                _close(descriptor)
                raise
        except OSError as error:
            raise StoreError(
                f"cannot lock {path}: {error.strerror}; make its directory writable, or free some space"
            ) from error
        self._files[session_id] = _LockFile(descriptor)

    def acquire_free(self, sessions: Iterable[SessionId]) -> list[SessionId]:
        """Take the locks of all sessions that are not in use, and return these; release them soon, in any order.

        Raises:
            StoreError: a lock file cannot be made; none is held then.
        """
        taken: list[SessionId] = []
        try:
            for session_id in sessions:
                with contextlib.suppress(SessionInUseError):
                    if not (taken and self._share(taken[0], session_id)):
                        self.acquire(session_id)
                    taken.append(session_id)
        except BaseException:
            for session_id in taken:
                self.release(session_id)
            raise
        return taken

    def release(self, session_id: SessionId) -> None:
        """Give the lock back; do nothing if it is not held."""
        file = self._files.pop(session_id, None)
        if file is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self._path(session_id))
        file.names -= 1
        if not file.names:
            _close(file.descriptor)

    def _share(self, held: SessionId, session_id: SessionId) -> bool:
        """Let the file that locks `held` lock another session, too; return False if that has a file already."""
        try:
            os.link(self._path(held), self._path(session_id))
        except OSError:  # also if the file system has no hard links, or no more of them
            return False
        file = self._files[session_id] = self._files[held]
        file.names += 1
        return True

    def _path(self, session_id: SessionId) -> str:
        # A damaged row may have an id that names another directory, or is too long for a file.
        name = session_id if _NAME.fullmatch(session_id) else digest_of(session_id.encode())
        return os.path.join(self._directory, f"{self._prefix}.{name}.lock")

    def _locked(self, path: str, session_id: SessionId) -> int:
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
            _OPEN.add(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(path, descriptor):
                    if os.fstat(descriptor).st_nlink == 1:
                        return descriptor
                    os.unlink(path)  # no other process does it at this moment, because that takes the lock
            except BlockingIOError:
                owner = _owner(descriptor)
                _close(descriptor)
                raise SessionInUseError(session_id, owner) from None
            except OSError:
                _close(descriptor)
                raise
            # The locked file no longer has this name, because its owner or we have removed it.
            _close(descriptor)


def _close(descriptor: int) -> None:
    _OPEN.discard(descriptor)
    os.close(descriptor)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _owner(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _directory(database: str) -> str:
    return os.path.join(os.path.dirname(database), "locks")


def _recorded(path: str) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # it is gone, or not ours
        return None
    try:
        return _owner(descriptor)
    except OSError:  # not ours: a pipe or a directory
        return None
    finally:
        os.close(descriptor)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it runs, as another user
        pass
    return True
