"""Temporary files for atomic writes, each recorded before it exists, so that none outlives a kill.

A file is replaced by writing a new file beside it and renaming that. A process that is killed in between leaves the
new file behind. So a record, a file in the state directory with the path, is made first and removed last, and the next
start removes the files that the records of dead writers name (`sweep`).

A writer is alive as long as its record is locked: a lock (flock) ends with its process in any case, and works across
containers that share the directory. No temporary file is lost, and none of a living writer is removed, because:

1. The record is locked and complete before the temporary file is made, and it is removed after that file is gone.
2. A sweep between the creation of a record and its locking finds the record unlocked, and removes it. So a writer that
   got the lock checks that its record is still in place, and makes another one if it is not.
3. A sweep removes only names that this module made, with a random part. A recorded path that leads elsewhere by now
   does not lead to such a file.

Not covered: a directory that was renamed after the kill, and a power cut, which may lose the record. Imports only the
standard library. Called when files are written, and by the host when it starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Generator
from typing import Final

FOLDER: Final = "writing"
"""Directory of the records, below a state directory."""
_BEGINNING: Final = ".rewindow-"
_END: Final = ".tmp"
_RANDOM_BYTES: Final = 8
_DIGITS: Final = frozenset("0123456789abcdef")
_LONGEST: Final = 1 << 16


@contextlib.contextmanager
def recorded(records: str | None, folder: str) -> Generator[str]:
    """Name a temporary file in `folder`, an absolute path.

    The caller renames or removes the file within the context. If it cannot, the record stays for the next start.

    Args:
        records: the directory of the records, made if it is missing. Without one, or if it is not writable, there is no
            record: the file is written all the same, and only a kill at that moment leaves something behind.
    """
    name = f"{_BEGINNING}{os.urandom(_RANDOM_BYTES).hex()}{_END}"
    record = None if records is None else _record(records, name, os.path.join(folder, name))
    try:
        yield name
    finally:
        if record is not None:
            assert records is not None
            with contextlib.suppress(OSError):
                if not _may_exist(os.path.join(folder, name)):
                    os.unlink(os.path.join(records, name))
            os.close(record)


def _may_exist(path: str) -> bool:
    """Return whether a temporary file is left: its disk may be full or failing, so that the caller cannot remove it."""
    try:
        os.lstat(path)
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


def _record(records: str, name: str, path: str) -> int | None:
    place = os.path.join(records, name)
    with contextlib.suppress(OSError):
        os.makedirs(records, 0o700, exist_ok=True)
        while True:
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_at(place, descriptor):
                    os.write(descriptor, os.fsencode(path))
                    return descriptor
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(place)
                os.close(descriptor)
                raise
            os.close(descriptor)
    return None


def _is_at(place: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(place, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def sweep(records: str) -> None:
    """Remove the temporary files of killed writers.

    A file that cannot be removed now stays recorded.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(records):
            with contextlib.suppress(OSError):
                _sweep(os.path.join(records, name))


def _sweep(place: str) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path = os.fsdecode(os.read(descriptor, _LONGEST))
        if is_temporary(os.path.basename(path)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    os.unlink(path)
        os.unlink(place)
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """Return whether a name is that of a temporary file."""
    drawn = name.removeprefix(_BEGINNING).removesuffix(_END)
    return name == f"{_BEGINNING}{drawn}{_END}" and len(drawn) == 2 * _RANDOM_BYTES and set(drawn) <= _DIGITS


"""As many as the kernel follows."""
