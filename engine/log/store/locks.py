"""One advisory lock per session between processes: a file under `locks/` that holds `<pid>\\n` while it is locked.

`flock`, because it dies with its process however that dies, and because POSIX record locks are lost as soon as
anything in the process opens and closes the same file. Its price is that a forked child shares the lock: descriptors
are close-on-exec, and a fork hook closes them in a child that goes on as Python. Knows nothing of what a session is.
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
"""Ids that name a file."""
_OPEN: Final[set[int]] = set()
"""Descriptors of all locks that this process has, for the fork hook."""


def _forget_in_child() -> None:
    for descriptor in _OPEN:
        os.close(descriptor)
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def owners(database: str) -> dict[SessionId, int]:
    """Which running process has which session of the database at `database`, by the lock files. Raises OSError.

    Only reads the files: trying a lock could keep out a process that asks at the same moment. So a file that a crash
    left counts if another process has been given the same number since.
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
    """A locked file, which has `names` names: one for each session that it locks."""

    descriptor: int
    names: int = 1


class SessionLocks:
    """The locks of one database. Files are removed on release; those of a crash stay and are taken over.

    Thousands of sessions are locked for a moment by one file under many names, because making a file costs the file
    system 30 times as much as giving it one more name. Whoever opens any of the names finds the same file, locked. A
    crash leaves a file of many names that nobody has locked; whoever takes over one of these names gives it a file of
    its own first, because otherwise it would lock the sessions of the others too.
    """

    __slots__ = ("_directory", "_files", "_prefix")

    def __init__(self, database: str) -> None:
        self._directory = _directory(database)
        self._prefix = os.path.basename(database)
        self._files: dict[SessionId, _LockFile] = {}

    def acquire(self, session_id: SessionId) -> None:
        """Takes the lock at once or not at all.

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
        """Takes the locks of all that nobody has. Returns them, in their order; to be released soon, in any order.

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
        """Gives the lock back; does nothing where it is not held."""
        file = self._files.pop(session_id, None)
        if file is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self._path(session_id))
        file.names -= 1
        if not file.names:
            _close(file.descriptor)

    def _share(self, held: SessionId, session_id: SessionId) -> bool:
        """Whether the file that locks `held` locks the other session too now. Not where that has a file already."""
        try:
            os.link(self._path(held), self._path(session_id))
        except OSError:  # also where a file system has no such names, or no more of them
            return False
        file = self._files[session_id] = self._files[held]
        file.names += 1
        return True

    def _path(self, session_id: SessionId) -> str:
        # A damaged row may have an id that leads elsewhere, or is too long for a file.
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
                    os.unlink(path)  # and nobody else does at this moment, since that takes the lock on this file
            except BlockingIOError:
                owner = _owner(descriptor)
                _close(descriptor)
                raise SessionInUseError(session_id, owner) from None
            except OSError:
                _close(descriptor)
                raise
            # What was locked is not the file of this name (any more), because its owner or we have removed it.
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
    except OSError:  # it is gone, or is no file of ours
        return None
    try:
        return _owner(descriptor)
    except OSError:  # no file of ours, a pipe or a directory
        return None
    finally:
        os.close(descriptor)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it runs, as somebody else
        pass
    return True
