"""The temporary files that writes are under way in: each is on record before it is made, so that none outlives a kill.

A file is replaced by writing a new one beside it and renaming that. Whoever is killed in between leaves the new one.
So a record, a file in the state directory that says where, is made first and removed last, and the next start removes
what the records of dead writers name (`sweep`).

A writer lives as long as its record is locked: a lock (flock) ends with its process however that ends, and means the
same in every container that shares the directory. Why none is lost, and none of a living writer is removed:

1. The record is locked and complete before the temporary file is made, and removed after that is gone.
2. A sweep that comes between the making of a record and its locking finds it free, and removes it. So a writer looks,
   once it has the lock, whether its record is still in its place, and makes another one where it is not.
3. A sweep removes only what is named as this module names its files, with a part drawn at random: a path that leads
   elsewhere by now leads to no such file.

Not covered: a directory that was renamed after the kill, and a power cut, after which a record may be missing. Imports
the standard library alone. Called by landings, and by the host when it starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Generator
from typing import Final

FOLDER: Final = "writing"
"""Of the records, in a state directory."""
_BEGINNING: Final = ".rewindow-"
_END: Final = ".tmp"
_RANDOM_BYTES: Final = 8
_DIGITS: Final = frozenset("0123456789abcdef")
_LONGEST: Final = 1 << 16


@contextlib.contextmanager
def recorded(records: str | None, folder: str) -> Generator[str]:
    """The name for a temporary file in `folder`, an absolute path; whoever makes it has removed it when this ends.

    Args:
        records: the directory of the records, made where it is missing. Without one, or where none can be written,
            nothing is recorded: a file is saved all the same, and only a kill at that moment leaves something.
    """
    name = f"{_BEGINNING}{os.urandom(_RANDOM_BYTES).hex()}{_END}"
    record = None if records is None else _record(records, name, os.path.join(folder, name))
    try:
        yield name
    finally:
        if record is not None:
            assert records is not None
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(records, name))
            os.close(record)


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
    """Removes the temporary files of writers that were killed. One that cannot be removed now stays on record."""
    with contextlib.suppress(OSError):
        for name in os.listdir(records):
            with contextlib.suppress(OSError):
                _sweep(os.path.join(records, name))


def _sweep(place: str) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path = os.fsdecode(os.read(descriptor, _LONGEST))
        if _is_ours(os.path.basename(path)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    os.unlink(path)
        os.unlink(place)
    finally:
        os.close(descriptor)


def _is_ours(name: str) -> bool:
    drawn = name.removeprefix(_BEGINNING).removesuffix(_END)
    return name == f"{_BEGINNING}{drawn}{_END}" and len(drawn) == 2 * _RANDOM_BYTES and set(drawn) <= _DIGITS
