"""Safe opening: pin a path first, ask the kernel where it is, then open the pinned inode.

Owns the rule that only regular files are read or replaced and directories are listed, that neither blocks, and that all
of them are inside the given roots. Must not know sessions, tools or nodes. Called by the worker's `Files` and its
`open`, and by every file tool. Over 700 lines, because the proof below covers all of them.

To resolve a path and then open the result takes two looks at the file system; if a link is swapped in between, the
second leads outside. So a path is looked up once, and pinned (`pins`): that opens nothing (a pipe does not block, a
device is not started). The kernel then tells where it found the inode, links resolved, and this place is checked.
Opening the pin opens that inode, whatever is at its path by now. Hard links have no other
place that could be found: one inside the roots is inside.

A file to write is a name in a directory, and need not exist. So the directory is pinned, and everything is done to the
name in the pinned directory, without following links (`Place`). Nothing is written outside, whatever is swapped
meanwhile, because:

1. The kernel resolves links above the name while it pins, and the result is checked. Later changes of these links do
   not matter, because the path is not used again.
2. If the name is a link, it is read, and its target is looked up in the same way from the beginning. A link that
   appears later is not followed: opening it fails, renaming onto it replaces the link itself.
3. Missing directories are made one by one, each in the one pinned before, and each is pinned without following links.
4. A pinned directory may be moved outside meanwhile, with its contents. A process that may do that could also have
   moved it afterwards: the two orders cannot be told apart.

Rewindow's own directories (`keep_out`) are outside all roots, even if the roots are around them: a home directory may
be a workspace. This is set once for the process, so that no tool can forget it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY
from pathlib import PurePath
from typing import BinaryIO, Final, Literal, NamedTuple

import xxhash

from ..core.domain import is_inside
from ..core.durable import sync
from ..core.execution import UNREAD
from .pins import PIN, is_on_procfs, may, opened_again, path_of, pinned_again
from .spellings import stored_name, stored_path

_MOST_LINKS: Final = 40
_PROGRAMS, _LIBRARIES = "PATH", "LD_LIBRARY_PATH"
"""Variables with places where programs and libraries are found."""
"""The kernel's own limit."""
OUTSIDE: Final = "the path is outside the workspace"
_IS_OWN: Final = "this path holds Rewindow's sessions and keys; statements cannot use it"
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Held(str):
    """A directory as resolved when a session began.

    A link that replaces it later does not matter.
    """

    __slots__ = ()


def real_roots(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Resolve directories to their real places now.

    One that is spelled as lying in another counts only there: a process that may write the other could put a link in
    its place, or in the place of a directory above it.
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
"""Links on the way to a directory that is kept out: replacing one leads elsewhere."""


ANYWHERE: Final = ("/",)
"""The roots for a user's files, which may be links to any place. Only not to one that is kept out, or to procfs: a
statement may have put the link there."""


def user_roots(folder: str) -> tuple[str, ...]:
    """Return the roots for files in a directory that no statement can write, though it is kept out: links as above."""
    return os.path.realpath(folder), *ANYWHERE


def keep_out(directory: str | os.PathLike[str]) -> None:
    """Put a directory, or a file, out of all roots, unless they are in it.

    Nothing is opened in it.

    A directory around it cannot be written, moved or removed either. For the whole process.
    """
    _own.add(os.path.realpath(directory))
    path = PurePath(os.path.abspath(directory))
    _ways.update(str(each) for each in (path, *path.parents) if os.path.islink(each))


def is_kept_out(directory: str) -> bool:
    """Return whether the directory is kept out of all roots, or in one that is; its links are resolved."""
    return is_inside(os.path.realpath(directory), tuple(_own))


def ways_in(roots: tuple[str, ...]) -> bool:
    """Return whether a link in these directories leads to one that is kept out, which only this module checks."""
    return any(is_inside(way, (root,)) for way in _real_ways() for root in real_roots(roots))


def _real_ways() -> list[str]:
    return [os.path.join(os.path.realpath(os.path.dirname(each)), os.path.basename(each)) for each in _ways]


def is_within(place: str, roots: tuple[str, ...]) -> bool:
    """Return whether a real place is in these directories, and not kept out."""
    try:
        _check_inside(place, roots)
    except PermissionError:
        return False
    return True


def own_below(directory: str) -> tuple[str, ...]:
    """Return the directories in this one that are kept out, by their paths from there."""
    top = os.path.join(directory, "")
    return tuple(sorted(each.removeprefix(top) for each in _own if each.startswith(top)))


@contextlib.contextmanager
def opened_file(path: str, roots: tuple[str, ...] | None = None) -> Generator[BinaryIO]:
    """Open the regular file at an absolute path for reading.

    Never blocks on a pipe or a device.

    Args:
        path: absolute; links are followed.
        roots: absolute directories, as `real_roots` resolves them. None allows every place the process may read.

    Raises:
        PermissionError: it is outside the roots, or on procfs, where files describe the process that reads them.
        IsADirectoryError: it is a directory.
        OSError: it is not a regular file, or the operating system's own reason.
        ValueError: the path contains a NUL character.
    """
    with _pinned(path, roots) as pin:
        _check_regular(pin, path)
        descriptor = _reopened(pin, os.O_RDONLY, path)
    with open(descriptor, "rb") as file:
        yield file


def pinned_stat(path: str, roots: tuple[str, ...]) -> os.stat_result:
    """Return `os.stat` of an absolute path, links followed.

    Arguments and errors are as for `opened_file`.

    Also for a directory, a pipe or a device: nothing is opened.
    """
    with _pinned(path, roots) as pin:
        return os.fstat(pin)


@contextlib.contextmanager
def opened_directory(path: str, roots: tuple[str, ...] | None = None) -> Generator[int]:
    """Open the directory at an absolute path, for `os.scandir`.

    Arguments and errors are as for `opened_file`.

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
    """The place of a file that may not exist yet: a name in a pinned directory.

    `directory` is a descriptor, for functions of `os` that take one; it is valid as long as the place is. `missing` are
    directories between it and the name that would have to be made.
    """

    directory: int
    missing: tuple[str, ...]
    name: str

    @property
    def folder(self) -> str:
        """The absolute path, links resolved, of the file's directory."""
        return os.path.join(stored_path(path_of(self.directory)), *self.missing)

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.name)

    @contextlib.contextmanager
    def opened(self) -> Generator[BinaryIO | None]:
        """Open the regular file for reading; None if there is nothing.

        Raises like `opened_file`.
        """
        pin = None if self.missing else self._pin()
        if pin is None:
            yield None
            return
        try:
            _check_regular(pin, self)
            descriptor = _reopened(pin, os.O_RDONLY, self)
        finally:
            os.close(pin)
        with open(descriptor, "rb") as file:
            yield file

    def _pin(self) -> int | None:
        try:
            return os.open(self.name, PIN | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)
        except FileNotFoundError:
            return None

    def check_writable(self) -> None:
        """Check that this process may write the file or replace it.

        Raises OSError otherwise.

        A file that is not writable is refused even if its directory allows replacing it, because its mode is intended.
        """
        self.check_folder()
        pin = None if self.missing else self._pin()
        if pin is not None:
            try:
                _check_regular(pin, self)
                self._check(pin, os.W_OK)
            finally:
                os.close(pin)

    def check_folder(self) -> None:
        """Check that this process may make, rename and remove names in the directory; raises OSError otherwise."""
        self._check(self.directory, os.W_OK | os.X_OK)

    def _check(self, descriptor: int, mode: int) -> None:
        if may(descriptor, mode):
            return
        if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, "the file system is mounted read-only", self.path)
        what = f"its directory {self.folder}" if descriptor == self.directory else "the file"
        raise PermissionError(errno.EACCES, f"{what} is not writable", self.path)


@contextlib.contextmanager
def place_to_write(
    path: str,
    roots: tuple[str, ...] | None = None,
    *,
    making: bool = False,
    follows: bool = True,
    as_spelled: bool = False,
) -> Generator[Place]:
    """Return the place of a file at an absolute path, which need not exist.

    Anything may be there.

    Args:
        path: absolute; links are followed, including dangling ones.
        roots: as for `opened_file`.
        making: make missing directories, with the permissions of the umask.
        follows: also follow a link at the end of the path.
        as_spelled: keep the spelling of the name, even if the directory lists another one of it (`spellings`).

    Raises:
        PermissionError: it is outside the roots, or on procfs.
        IsADirectoryError: the path can only be a directory's.
        OSError: the operating system's own reason, for instance that a part of the path is not a directory.
        ValueError: the path contains a NUL character.
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
                    _check_around(os.path.join(path_of(pin), *missing, name))
                if not (missing or as_spelled):
                    name = stored_name(pin, name)
                with _made(pin, missing if making else ()) as directory:
                    yield Place(directory, () if making else missing, name)
                return
            path = os.path.join(path_of(pin), target)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _target(name: str, directory: int) -> str | None:
    """Return the target of the link with this name; None if it is not a link."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


@contextlib.contextmanager
def _deepest(folder: str, roots: tuple[str, ...] | None) -> Generator[tuple[int, tuple[str, ...]]]:
    """Pin the deepest existing directory on the way to `folder`.

    Yield it with the missing names below it.
    """
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
    """Make the missing directories in the pinned one, and yield the last.

    After a failure, remove empty ones.
    """
    pins = [pin]
    made: list[tuple[int, str]] = []
    try:
        for name in missing:
            with contextlib.suppress(FileExistsError):  # another process may have made it just now
                os.mkdir(name, dir_fd=pins[-1])
                made.append((pins[-1], name))
                sync_directory(pins[-1])
            pins.append(os.open(name, PIN | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=pins[-1]))
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
    """Make the names in a pinned directory durable, as far as file system and rights allow.

    Never fails, because the names have been changed by then.
    """
    with contextlib.suppress(OSError):
        descriptor = opened_again(pin, os.O_RDONLY | os.O_DIRECTORY)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)


class SyncedTogether:
    """Directories in which names have changed, to be made durable together: one sync for each, however many names.

    Called like `sync_directory`, in a context at whose end they are durable, also after a failure.
    """

    def __init__(self) -> None:
        self._pins: dict[tuple[int, int], int] = {}

    def __call__(self, pin: int) -> None:
        """Note a pinned directory."""
        found = os.fstat(pin)
        if (place := (found.st_dev, found.st_ino)) not in self._pins:
            self._pins[place] = os.dup(pin)

    def __enter__(self) -> SyncedTogether:
        return self

    def __exit__(self, *_: object) -> None:
        for pin in self._pins.values():
            sync_directory(pin)
            os.close(pin)


def _check_regular(pin: int, path: str | Place) -> None:
    mode = os.fstat(pin).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), _spelled(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"the path leads to {kind}, not a regular file", _spelled(path))


def _spelled(path: str | Place) -> str:
    """Return the path for an error. That of a place is looked up only then, because this takes a system call."""
    return path if isinstance(path, str) else path.path


@contextlib.contextmanager
def _pinned(path: str, roots: tuple[str, ...] | None) -> Generator[int]:
    _check_spelling(path)
    try:
        pin = os.open(path, PIN | os.O_CLOEXEC)
    except OSError:
        # Do not tell whether something exists outside. Nothing was opened, so resolving is safe here.
        if roots is not None:
            _check_inside(os.path.realpath(path), roots)
        raise
    try:
        if roots is not None:
            _check_inside(path_of(pin), roots)
            if is_on_procfs(pin):
                raise PermissionError(
                    errno.EACCES, "the path is on procfs, which would show the agent's own process", path
                )
        yield pin
    finally:
        os.close(pin)


def _check_spelling(path: str) -> None:
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL character")


def _check_inside(place: str, roots: tuple[str, ...]) -> None:
    for root in real_roots(roots):
        if is_inside(place, (root,)):
            if is_own(place, root):
                raise PermissionError(errno.EACCES, _IS_OWN, place)
            return
    raise PermissionError(errno.EACCES, f"{OUTSIDE} {roots[0]}", place)


def _check_around(place: str) -> None:
    """Raise PermissionError if the name is a directory around one that is kept out."""
    if any(is_inside(each, (place,)) for each in (*_own, *_real_ways())):
        raise PermissionError(errno.EACCES, _IS_OWN, place)


def is_own(place: str, root: str) -> bool:
    """Return whether a real place is kept out of this root."""
    above = place
    while above:
        if above in _own and not is_inside(root, (above,)):
            return True
        above = above.rpartition("/")[0]
    return False


def _reopened(pin: int, flags: int, path: str | Place) -> int:
    try:
        return opened_again(pin, flags | os.O_NONBLOCK)
    except OSError as error:
        raise OSError(error.errno, error.strerror, _spelled(path)) from None


# --- pinned files ----------------------------------------------------------------------------------------------------


ANOTHER: Final = "another directory replaced this one after the request; the command was not run"

LARGEST: Final = 64 << 20
"""Bytes of the largest content that is kept."""
PIECE: Final = 32 << 10
"""Bytes of a piece."""
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)

# Bound here, because a statement may replace these functions in their modules, and its code would run here.
_open, _close, _read, _fstat, _readlink = os.open, os.close, os.read, os.fstat, os.readlink
_encode, _join, _split = os.fsencode, os.path.join, os.path.split

Kind = Literal["nothing", "file", "directory", "other"]
Path = str | bytes


class Pinned(NamedTuple):
    """The target of a path at one moment.

    `place` is its real place; `descriptor` pins it, -1 if nothing is there.

    Pinning opens nothing: a pipe does not block, a device is not started, and if the file is replaced meanwhile, the
    pinned one is read. Used by a worker before a statement writes a file, and by the host afterwards.
    """

    place: bytes
    kind: Kind
    descriptor: int = -1
    state: os.stat_result | None = None

    @property
    def size(self) -> int:
        return 0 if self.state is None else self.state.st_size

    @property
    def mode(self) -> int | None:
        """The permission bits; None if nothing is there."""
        return None if self.state is None else stat.S_IMODE(self.state.st_mode)

    @property
    def mark(self) -> str:
        """Replaces the digest of a content that is not read.

        It changes whenever the content does.
        """
        return "" if self.state is None else mark_of(self.state)

    def close(self) -> None:
        if self.descriptor >= 0:
            _close(self.descriptor)

    def pieces(self, limit: int = LARGEST + 1) -> Iterator[bytes]:
        """Yield the content in pieces of at most `PIECE` bytes, until `limit` bytes or more.

        Raises OSError if it may not be read.
        """
        descriptor = opened_again(self.descriptor, O_RDONLY | O_NONBLOCK)
        try:
            while limit > 0 and (piece := _read(descriptor, PIECE)):
                yield piece
                limit -= len(piece)
        finally:
            _close(descriptor)


def mark_of(state: os.stat_result) -> str:
    """Return the mark of a file in this state, see `Pinned.mark`."""
    parts = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    return f"{UNREAD}{xxhash.xxh3_64_hexdigest(repr(parts).encode())}"


def pinned(path: Path | int, directory: int | None = None, *, follows: bool = True) -> Pinned:
    """Pin the target of a path; the caller closes the result.

    Args:
        path: as the operating system takes it; a descriptor means its open file.
        directory: descriptor of the directory where a relative path begins; None for the working directory.
        follows: a link at the end of the path means its target, even if that does not exist.

    Raises:
        OSError: the target is unknown: part of the path cannot be searched, links form a circle, a name is too long.
        ValueError, TypeError: it is not a path.
    """
    if isinstance(path, int):
        return _found(pinned_again(path))
    for _ in range(_MOST_LINKS):
        try:
            return _found(_open(path, PIN | O_CLOEXEC | (0 if follows else O_NOFOLLOW), dir_fd=directory))
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
        place = _encode(path_of(descriptor))
    except BaseException:
        _close(descriptor)
        raise
    return Pinned(place, _kind(state), descriptor, state)


def _missing(path: Path, directory: int | None) -> tuple[bytes, bytes | None]:
    """Return where a file of this name would be, and the target of a link with that name.

    Raises OSError if the directory above is missing too.
    """
    above, name = _split(_encode(path))
    pin = _open(above or b".", PIN | O_DIRECTORY | O_CLOEXEC, dir_fd=directory)
    try:
        target = None
        with suppress(OSError):  # there is no link of that name
            target = _readlink(name, dir_fd=pin)
        return _join(_encode(path_of(pin)), name), target
    finally:
        _close(pin)


def _kind(state: os.stat_result) -> Kind:
    # A file without a name (a memfd, or one removed while open) cannot be found again.
    if stat.S_ISREG(state.st_mode) and state.st_nlink:
        return "file"
    return "directory" if stat.S_ISDIR(state.st_mode) else "other"


# real paths:
# Where paths really lead: the links on the way of one, and a `PATH` without directories that statements can write.
#
# Asks the file system, and opens nothing. Used by `protected`, and wherever a program is looked for.


@contextlib.contextmanager
def same_directory(path: bytes, identity: tuple[int, int] | None) -> Generator[int | bytes]:
    """What to enter for a working directory that was looked at earlier: a descriptor, or the path.

    Args:
        path: absolute.
        identity: its device and inode then; None where any directory will do, and links are followed.

    Raises:
        OSError: another directory is there by now, or a link (ESTALE).
    """
    if identity is None:
        yield path
        return
    pin = os.open(b"/", PIN | O_DIRECTORY | O_CLOEXEC)
    try:
        for name in filter(None, path.split(b"/")):
            above = pin
            try:
                pin = os.open(name, PIN | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, dir_fd=above)
            except OSError as error:
                pin = -1
                raise OSError(errno.ESTALE, ANOTHER) from error
            finally:
                os.close(above)
        state = os.fstat(pin)
        if (state.st_dev, state.st_ino) != identity:
            raise OSError(errno.ESTALE, ANOTHER)
        yield pin
    finally:
        if pin >= 0:
            os.close(pin)


def search_path(path: str, distrusted: tuple[str, ...]) -> str:
    """A `PATH` without relative places and those in which a statement may have left a program.

    The others are real paths, because a statement could exchange a link on the way to one. If none is left, the result
    is a place that has no programs: shells take an empty `PATH` for the working directory.

    Args:
        path: places, separated by colons.
        distrusted: absolute directories, links resolved.
    """
    places = (os.path.realpath(each) for each in path.split(os.pathsep) if os.path.isabs(each))
    return os.pathsep.join(dict.fromkeys(each for each in places if not is_inside(each, distrusted))) or os.devnull


def trusted_paths(variables: Mapping[str, str], distrusted: tuple[str, ...]) -> dict[str, str]:
    """The variables of a program, with PATH and LD_LIBRARY_PATH as `search_path`; unchanged if nothing is distrusted.

    The loader also takes semicolons between places, and replaces words such as `$ORIGIN` in them; such places are left
    out (ld.so(8)).
    """
    trusted = dict(variables)
    if distrusted and _PROGRAMS in trusted:
        trusted[_PROGRAMS] = search_path(trusted[_PROGRAMS], distrusted)
    if distrusted and _LIBRARIES in trusted:
        places = trusted[_LIBRARIES].replace(";", os.pathsep).split(os.pathsep)
        trusted[_LIBRARIES] = search_path(os.pathsep.join(each for each in places if "$" not in each), distrusted)
    return trusted


def real_path(path: str) -> str:
    """Return the path with its links resolved, as far as this user may read them, and as directories list it."""
    try:
        return stored_path(os.path.realpath(path))
    except OSError:  # of Python before 3.13, for a link of another process in /proc
        return os.path.normpath(path)


def links_to(path: str) -> Iterator[str]:
    """Yield the real place of each link on an absolute path, including one at its end: replacing it leads elsewhere."""
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
