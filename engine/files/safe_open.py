"""Which files may be opened, and how: pin first, ask the kernel where that is, then open what is pinned.

Owns the rule that nothing but regular files is read or replaced and directories are listed, that neither blocks, and
that all lie inside the given roots. Must not know sessions, tools or nodes. Called by the worker's `Files` and its
`open`, and by every file tool. A little over 300 lines, because why nothing lands outside is said here, once.

Resolving a path and opening the result are two looks at the file system; a link that is swapped in between is followed
outside. So a path is looked up once, with O_PATH: that opens nothing (a pipe does not block, a device is not started)
and pins one inode. `/proc/self/fd` then tells where the kernel found it, links resolved, and that is compared. Opening
`/proc/self/fd/N` opens the pinned inode again, whatever its path leads to by now. Hard links have no other place that
could be found out: one inside the roots is inside.

To be written is a name in a directory, which need not exist. So the directory is pinned, and all is done to the name in
the pinned directory, without following it (`Place`). Why nothing lands outside, whatever is swapped meanwhile:

1. Links above the name are resolved by the kernel while it pins, and where that led is compared. What they lead to
   afterwards does not matter, because the path is not used again.
2. A name that is a link is read, and its target is looked up in the same manner from the beginning. What is a link when
   the act comes, and was none before, is not followed: opening it fails, renaming onto it replaces the link itself.
3. Missing directories are made one by one, each in the one pinned before and each pinned without following links.
4. A pinned directory may be moved outside meanwhile, with what is in it. Whoever may do that could as well have moved
   it after the act: the two orders cannot be told apart.

What is this program's own (`keep_out`) is in no roots, though they may be around it: a home directory is a workspace,
too. That is said once for the whole process, so that no tool can forget it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from os import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY
from pathlib import PurePath
from typing import BinaryIO, Final, Literal, NamedTuple

import xxhash

from ..core.domain import is_inside
from ..core.execution import UNREAD

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_STATFS_BYTES: Final = 256
"""More than `struct statfs` takes anywhere; its first field, a long, is the type of the file system."""
_PROCFS: Final = 0x9FA0
"""PROC_SUPER_MAGIC, statfs(2)."""
_MOST_LINKS: Final = 40
"""As many as the kernel follows."""
_IS_OWN: Final = "where this program keeps its sessions, which no statement reads or writes"
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Held(str):
    """A directory as it was resolved when a session began: a link that takes its place leads nowhere else."""

    __slots__ = ()


def real_roots(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Where these directories really are, as they are now.

    One that is named as lying in another of them counts only there: whoever may write the other could put a link in its
    place, or in the place of a directory above it.
    """
    real = tuple(root if isinstance(root, Held) else os.path.realpath(root) for root in roots)
    if len(roots) == 1:
        return real
    return tuple(found for root, found in zip(roots, real, strict=True) if not _has_left(root, found, real))


def _has_left(root: str, found: str, real: tuple[str, ...]) -> bool:
    above = set(map(os.path.realpath, map(str, PurePath(root).parents)))
    return any(not is_inside(found, (other,)) and any(is_inside(each, (other,)) for each in above) for other in real)


_own: set[str] = set()
_ways: set[str] = set()
"""Links by which what is kept out is reached: whoever replaces one puts something else there."""


def keep_out(directory: str | os.PathLike[str]) -> None:
    """From now on nothing that is opened within roots lies in this directory, as long as the roots are not in it.

    Nor is a directory written, moved or removed that it lies in. Holds in all of this process.
    """
    _own.add(os.path.realpath(directory))
    path = PurePath(os.path.abspath(directory))
    _ways.update(str(each) for each in (path, *path.parents) if os.path.islink(each))


def ways_in(roots: tuple[str, ...]) -> bool:
    """Whether a link in these directories leads to what is kept out, which nothing but this module can hold."""
    return any(is_inside(way, (root,)) for way in _real_ways() for root in real_roots(roots))


def _real_ways() -> list[str]:
    return [os.path.join(os.path.realpath(os.path.dirname(each)), os.path.basename(each)) for each in _ways]


def own_below(directory: str) -> tuple[str, ...]:
    """The directories that are kept out and lie in this one, by their paths from there."""
    top = os.path.join(directory, "")
    return tuple(sorted(each.removeprefix(top) for each in _own if each.startswith(top)))


@contextlib.contextmanager
def opened_file(path: str, roots: tuple[str, ...] | None = None) -> Generator[BinaryIO]:
    """The regular file at an absolute path, open for reading; never blocks on a pipe or a device.

    Args:
        path: absolute; links are followed.
        roots: absolute directories, as `real_roots` resolves them. None allows every place the process may read.

    Raises:
        PermissionError: it lies outside the roots, or on procfs, where a file speaks about the process that reads it.
        IsADirectoryError: it is a directory.
        OSError: it is no regular file, or the operating system's own reason.
        ValueError: the path holds a NUL character.
    """
    with _pinned(path, roots) as pin:
        _check_regular(pin, path)
        descriptor = _reopened(pin, os.O_RDONLY, path)
    with open(descriptor, "rb") as file:
        yield file


def pinned_stat(path: str, roots: tuple[str, ...]) -> os.stat_result:
    """What `os.stat` says of the absolute path, links followed. Arguments and errors as `opened_file`.

    Also of a directory, a pipe or a device: nothing is opened.
    """
    with _pinned(path, roots) as pin:
        return os.fstat(pin)


@contextlib.contextmanager
def opened_directory(path: str, roots: tuple[str, ...] | None = None) -> Generator[int]:
    """A descriptor of the directory at an absolute path, for `os.scandir`. Arguments and errors as `opened_file`.

    Raises:
        NotADirectoryError: it is something else.
    """
    with _pinned(path, roots) as pin:
        descriptor = _reopened(pin, os.O_RDONLY | os.O_DIRECTORY, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file is or may come to be: a name in a pinned directory.

    `directory` is a descriptor, for the functions of `os` that take one; it serves as long as the place does.
    `missing` are the directories that would have to be made between it and the name.
    """

    directory: int
    missing: tuple[str, ...]
    name: str

    @property
    def folder(self) -> str:
        """The absolute path, links resolved, of the directory in which the file is."""
        return os.path.join(os.readlink(f"/proc/self/fd/{self.directory}"), *self.missing)

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.name)

    @contextlib.contextmanager
    def opened(self) -> Generator[BinaryIO | None]:
        """The regular file there, open for reading; None where there is nothing. Raises as `opened_file`."""
        pin = None if self.missing else self._pin()
        if pin is None:
            yield None
            return
        try:
            _check_regular(pin, self.path)
            descriptor = _reopened(pin, os.O_RDONLY, self.path)
        finally:
            os.close(pin)
        with open(descriptor, "rb") as file:
            yield file

    def _pin(self) -> int | None:
        try:
            return os.open(self.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)
        except FileNotFoundError:
            return None

    def check_writable(self) -> None:
        """Raises OSError where the file may not be written by this process, or no other may be put in its place.

        A file that is not writable is refused though its directory would let it be replaced: somebody meant it so.
        """
        self.check_folder()
        pin = None if self.missing else self._pin()
        if pin is not None:
            try:
                _check_regular(pin, self.path)
                self._check(pin, os.W_OK, "the file")
            finally:
                os.close(pin)

    def check_folder(self) -> None:
        """Raises OSError where this process may not make, rename or remove names in its directory."""
        self._check(self.directory, os.W_OK | os.X_OK, f"its directory {self.folder}")

    def _check(self, descriptor: int, mode: int, what: str) -> None:
        if os.access(f"/proc/self/fd/{descriptor}", mode, effective_ids=True):
            return
        if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, "on a file system that is mounted read-only", self.path)
        raise PermissionError(errno.EACCES, f"{what} is not writable", self.path)


@contextlib.contextmanager
def place_to_write(
    path: str, roots: tuple[str, ...] | None = None, *, making: bool = False, follows: bool = True
) -> Generator[Place]:
    """The place of a file at an absolute path, which need not exist; what is there may be anything.

    Args:
        path: absolute; links are followed, also those that lead to nothing yet.
        roots: as `opened_file`.
        making: make the directories that are missing, with the permissions that the umask leaves.
        follows: also a link at the end of the path is followed.

    Raises:
        PermissionError: it lies outside the roots, or on procfs.
        IsADirectoryError: the path can only be a directory's.
        OSError: the operating system's own reason, for instance that something above it is no directory.
        ValueError: the path holds a NUL character.
    """
    _check_spelling(path)
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        if name in ("", os.curdir, os.pardir):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        with _deepest(folder, roots) as (pin, missing):
            target = None if missing or not follows else _target(name, pin)
            if target is None:
                if roots is not None:
                    _check_around(os.path.join(os.readlink(f"/proc/self/fd/{pin}"), *missing, name))
                with _made(pin, missing if making else ()) as directory:
                    yield Place(directory, () if making else missing, name)
                return
            path = os.path.join(os.readlink(f"/proc/self/fd/{pin}"), target)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _target(name: str, directory: int) -> str | None:
    """Where the link of that name leads; None where it is none."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


@contextlib.contextmanager
def _deepest(folder: str, roots: tuple[str, ...] | None) -> Generator[tuple[int, tuple[str, ...]]]:
    """The deepest directory there is on the way to `folder`, pinned, and the names that are missing below it."""
    missing: tuple[str, ...] = ()
    there = folder
    while not os.path.exists(there):
        there, name = os.path.split(there.rstrip("/"))
        missing = (name, *missing)
    with _pinned(there, roots) as pin:
        if not stat.S_ISDIR(os.fstat(pin).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), there)
        if os.pardir in missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        yield pin, tuple(name for name in missing if name != os.curdir)


@contextlib.contextmanager
def _made(pin: int, missing: tuple[str, ...]) -> Generator[int]:
    """The last of the missing directories, made in the pinned one; those that nothing was put into are removed."""
    pins = [pin]
    made: list[tuple[int, str]] = []
    try:
        for name in missing:
            with contextlib.suppress(FileExistsError):  # because somebody else may have made it just now
                os.mkdir(name, dir_fd=pins[-1])
                made.append((pins[-1], name))
                sync_directory(pins[-1])
            pins.append(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=pins[-1]))
        yield pins[-1]
    except BaseException:
        for above, name in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=above)
        raise
    finally:
        for each in pins[1:]:
            os.close(each)


def sync_directory(pin: int) -> None:
    """Makes durable which names there are in the pinned directory, as far as its file system and rights allow it.

    Never fails, because what was done to the names is done by then.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(f"/proc/self/fd/{pin}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check_regular(pin: int, path: str) -> None:
    mode = os.fstat(pin).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"{_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file", path)


@contextlib.contextmanager
def _pinned(path: str, roots: tuple[str, ...] | None) -> Generator[int]:
    _check_spelling(path)
    try:
        pin = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # Whether something exists outside is not told either; nothing was opened, so resolving is safe here.
        if roots is not None:
            _check_inside(os.path.realpath(path), roots)
        raise
    try:
        if roots is not None:
            _check_inside(os.readlink(f"/proc/self/fd/{pin}"), roots)
            if is_on_procfs(pin):
                raise PermissionError(errno.EACCES, "on procfs, which would show the agent's own process", path)
        yield pin
    finally:
        os.close(pin)


def _check_spelling(path: str) -> None:
    if "\0" in path:
        raise ValueError("a path cannot hold a NUL character")


def _check_inside(place: str, roots: tuple[str, ...]) -> None:
    for root in real_roots(roots):
        if is_inside(place, (root,)):
            if is_own(place, root):
                raise PermissionError(errno.EACCES, _IS_OWN, place)
            return
    raise PermissionError(errno.EACCES, f"outside the workspace {roots[0]}", place)


def _check_around(place: str) -> None:
    """Raises PermissionError where an act on the name would be one on a directory that is kept out."""
    if any(is_inside(each, (place,)) for each in (*_own, *_real_ways())):
        raise PermissionError(errno.EACCES, _IS_OWN, place)


def is_own(place: str, root: str) -> bool:
    """Whether a real place is kept out of this root."""
    return any(is_inside(place, (own,)) and not is_inside(root, (own,)) for own in _own)


def is_on_procfs(descriptor: int) -> bool:
    """Whether a file speaks about the process that reads it. Raises OSError where the file system does not answer."""
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(descriptor, found) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return ctypes.c_long.from_buffer(found).value == _PROCFS


def _reopened(pin: int, flags: int, path: str) -> int:
    try:
        return os.open(f"/proc/self/fd/{pin}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


# pinned:
# What is at a path at one moment: pinned first, and opened only where it is a regular file, so that nothing waits.
#
# Owns how a file is named, read and compared before and after somebody else's code has written it. To pin opens
# nothing: a pipe does not block, a device is not started, and whatever is put in the place of a file meanwhile, the
# pinned one is read. Must not know who writes, nor what becomes of a content. Called by the worker before an act
# (`worker.preimages`) and by the host after it (`sessions.touches`).

LARGEST: Final = 64 << 20
"""Bytes of the largest content that is kept."""
PIECE: Final = 32 << 10

"""As many as the kernel follows."""
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)

# Bound here, because a statement may replace them in their module, and its replacement would act in the middle of ours.
_open, _close, _read, _fstat, _readlink = os.open, os.close, os.read, os.fstat, os.readlink
_encode, _join, _split = os.fsencode, os.path.join, os.path.split

Kind = Literal["nothing", "file", "directory", "other"]
Path = str | bytes


class Pinned(NamedTuple):
    """What a path led to. `place` is where that really is; `descriptor` pins it, and is -1 where nothing is there."""

    place: bytes
    kind: Kind
    descriptor: int = -1
    state: os.stat_result | None = None

    @property
    def size(self) -> int:
        return 0 if self.state is None else self.state.st_size

    @property
    def mode(self) -> int | None:
        """The permission bits; None where nothing is there."""
        return None if self.state is None else stat.S_IMODE(self.state.st_mode)

    @property
    def mark(self) -> str:
        """Stands for the digest of a content that is not read, and changes whenever the content does."""
        return "" if self.state is None else mark_of(self.state)

    def close(self) -> None:
        if self.descriptor >= 0:
            _close(self.descriptor)

    def pieces(self, limit: int = LARGEST + 1) -> Iterator[bytes]:
        """The content of the file, `PIECE` bytes at most at a time, until there are `limit` bytes or more.

        Raises OSError where it may not be read.
        """
        descriptor = _open(_link(self.descriptor), O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        try:
            while limit > 0 and (piece := _read(descriptor, PIECE)):
                yield piece
                limit -= len(piece)
        finally:
            _close(descriptor)


def mark_of(state: os.stat_result) -> str:
    """What stands for the digest of a file in that state, see `Pinned.mark`."""
    parts = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    return f"{UNREAD}{xxhash.xxh3_64_hexdigest(repr(parts).encode())}"


def pinned(path: Path | int, directory: int | None = None, *, follows: bool = True) -> Pinned:
    """What is at the path; to be closed.

    Args:
        path: as the operating system takes it; a descriptor stands for the file that it is open on.
        directory: a descriptor of the directory that a relative path begins at; None for the working directory.
        follows: a link at the end of the path stands for what it leads to, also where there is nothing yet.

    Raises:
        OSError: nobody can tell: a part of the path may not be searched, links lead in a circle, a name is too long.
        ValueError, TypeError: it is no path.
    """
    if isinstance(path, int):
        path, directory, follows = _link(path), None, True
    for _ in range(_MOST_LINKS):
        try:
            return _found(_open(path, O_PATH | O_CLOEXEC | (0 if follows else O_NOFOLLOW), dir_fd=directory))
        except OSError as error:
            if error.errno not in _MISSING:
                raise
        place, target = _missing(path, directory)
        if target is None or not follows:
            return Pinned(place, "nothing")
        path, directory = _join(_split(place)[0], target), None
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _found(descriptor: int) -> Pinned:
    try:
        state = _fstat(descriptor)
        place = _encode(_readlink(_link(descriptor)))
    except BaseException:
        _close(descriptor)
        raise
    return Pinned(place, _kind(state), descriptor, state)


def _missing(path: Path, directory: int | None) -> tuple[bytes, bytes | None]:
    """Where a file of that name would come to be, and where the link leads that has the name.

    Raises OSError where the directory above it is missing, too.
    """
    above, name = _split(_encode(path))
    pin = _open(above or b".", O_PATH | O_DIRECTORY | O_CLOEXEC, dir_fd=directory)
    try:
        target = None
        with suppress(OSError):  # because there is no link of that name
            target = _readlink(name, dir_fd=pin)
        return _join(_encode(_readlink(_link(pin))), name), target
    finally:
        _close(pin)


def _kind(state: os.stat_result) -> Kind:
    # A file without a name (a memfd, one that was removed while it is open) is nobody's to find again.
    if stat.S_ISREG(state.st_mode) and state.st_nlink:
        return "file"
    return "directory" if stat.S_ISDIR(state.st_mode) else "other"


def _link(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


# temporary files:
# The temporary files that writes are under way in: each is on record before it is made, so that none outlives a kill.
#
# A file is replaced by writing a new one beside it and renaming that. Whoever is killed in between leaves the new
# one. So a record, a file in the state directory that says where, is made first and removed last, and the next start
# removes what the records of dead writers name (`sweep`).
#
# A writer lives as long as its record is locked: a lock (flock) ends with its process however that ends, and means
# the same in every container that shares the directory. Why none is lost, and none of a living writer is removed:
#
# 1. The record is locked and complete before the temporary file is made, and removed after that is gone. 2. A sweep
# that comes between the making of a record and its locking finds it free, and removes it. So a writer looks, once it
# has the lock, whether its record is still in its place, and makes another one where it is not. 3. A sweep removes
# only what is named as this module names its files, with a part drawn at random: a path that leads elsewhere by now
# leads to no such file.
#
# Not covered: a directory that was renamed after the kill, and a power cut, after which a record may be missing.
# Imports the standard library alone. Called by landings, and by the host when it starts.

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


# real paths:
# Where paths really lead: the links on the way of one, and a `PATH` without directories that statements can write.
#
# Asks the file system, and opens nothing. Used by `protected`, and wherever a program is looked for.

"""As many as the kernel follows."""


def search_path(path: str, distrusted: tuple[str, ...]) -> str:
    """A `PATH` without relative places and those in which a statement may have left a program.

    Args:
        path: places, separated by colons.
        distrusted: absolute directories, links resolved.
    """
    places = (each for each in path.split(os.pathsep) if os.path.isabs(each))
    return os.pathsep.join(each for each in places if not is_inside(os.path.realpath(each), distrusted))


def links_to(path: str) -> Iterator[str]:
    """The real place of each link on an absolute path, one at its end included: replacing it leads elsewhere."""
    waiting = deque(path.split("/"))
    here, count = "/", 0
    while waiting and count < _MOST_LINKS:
        part = waiting.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, part)
        try:
            target = os.readlink(there)
        except OSError:
            here = there
            continue
        count += 1
        yield there
        here = "/" if target.startswith("/") else here
        waiting.extendleft(reversed(target.split("/")))
