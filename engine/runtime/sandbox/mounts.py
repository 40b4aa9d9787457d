"""The mount layer: the process gets its own file tree, which is read-only except for the writable paths.

Landlock has no right for metadata, so without this layer the owner, mode, times and attributes of files outside could
be changed; with it, the kernel reports a read-only file system. Hidden paths are covered by an empty directory, and
Unix sockets outside by a device. Shared memory and terminals in `/dev` are new, and end with the last process that uses
them.

Mounting needs root, or root in a user namespace. Such a namespace has one user and one group; files of others belong to
`nobody` there. Entering one cannot be undone, and some systems (Ubuntu's AppArmor) forbid the next steps instead of the
entering. So a disposable process tries everything first, once (`missing`).

The order: the writable paths are cloned before any change. Then everything becomes read-only. Then clones and covers
are attached, the outermost first, because a cover may be inside a writable path, and the scratch directory inside a
cover. A read-only path inside a writable one is bound to itself, with all directories above it, because a directory
that is not a mount could be moved away with its contents, and replaced.

A rename between mounts is an EXDEV error, as between two disks. Called by `entering` before Landlock, because a domain
cannot mount.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import PurePath
from struct import Struct
from typing import Final

from ...files.pins import PIN
from ..system import kernel, passing

_NEWNS: Final = 0x00020000
_NEWUSER: Final = 0x10000000
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
_MS_BIND: Final = 1 << 12
_MS_PRIVATE: Final = 1 << 18
_MS_SLAVE: Final = 1 << 19
_ATTR_RDONLY: Final = 1
_ATTRIBUTES: Final = Struct("=QQQQ")
"""Attributes to set and to clear, the propagation, and a user namespace."""
_HERE: Final = -100
"""AT_FDCWD: paths are absolute."""
_RECURSIVE: Final = 0x8000
_EMPTY_PATH: Final = 0x1000
_CLONE: Final = 1
_FROM_EMPTY_PATH: Final = 4
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 -- the place that programs know
_TERMINALS: Final = "/dev/pts"
_TERMINAL_MAKER: Final = "/dev/ptmx"
_DEVICES: Final = "/dev"
_OTHER_TERMINAL: Final = re.compile(r"console|tty.+|hvc.*|vcs.*")
"""Not /dev/tty, which is a process's own."""
_COVER: Final = "size=64k,nr_inodes=64,mode=700"
_SUFFICES: Final = 1 << 20
_REASON_BYTES: Final = 1000
_MOUNT_NUMBER: Final = b"mnt_id:"
_A_VIEW: Final = b"."
_File = tuple[int, int]
"""Device and inode."""


@cache
def missing() -> str:
    """Why this layer is unavailable, as a phrase; empty if it is available.

    Tries it in a forked process, which takes milliseconds, and caches the result: the parent of workers calls it first.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        reason = "it failed"
        try:
            enter((), (), (), _SUFFICES)
            reason = ""
        except OSError as error:
            reason = f"this system does not allow {_who()} a private file tree ({error.strerror})"
        finally:
            os.write(writer, reason.encode()[:_REASON_BYTES])
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as said:
        reason = said.read().decode()
    os.waitpid(pid, 0)
    return reason


def enter(
    writable: Iterable[str],
    read_only: Iterable[str],
    hidden: Iterable[str],
    shared_bytes: int,
    sockets: Iterable[str] = (),
) -> None:
    """Enter a mount namespace, and a user namespace if necessary. The paths are absolute.

    Leaves out paths that do not exist or contain links. Raises OSError; then the process cannot be used any more.

    Args:
        shared_bytes: the limit of `/dev/shm`.
        sockets: Unix sockets to cover, without links.
    """
    leave()
    _set("/", _RECURSIVE, propagation=_MS_PRIVATE)
    clones = {path: _clone(path) for path in _outermost(filter(_leads_there, writable))}
    covers = [path for path in hidden if _leads_there(path)]
    _set("/", _RECURSIVE, attributes=_ATTR_RDONLY)
    for path in sorted({*clones, *covers}, key=_depth):
        # A path that is both writable and hidden is writable, because fewer paths are writable: that is more specific.
        if path in clones:
            _attach(clones[path], path)
        else:
            kernel.mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, _COVER)
    bound = set[str]()
    for path in covers:
        if path not in clones:
            _set(path, 0, attributes=_ATTR_RDONLY)
            _bind_above(path, tuple(clones), bound)
    for path in read_only:
        _bind_read_only(path, tuple(clones), bound)
    for path in sockets:
        _cover_socket(path)
    _renew_devices(shared_bytes)


def hold(
    pid: int, writable: Sequence[str], read_only: Iterable[str], views: Sequence[int], sockets: Iterable[str] = ()
) -> Sequence[int]:
    """Make more paths read-only in the file tree of the process `pid`, and of all processes that share it.

    A file that another one was renamed over is no longer a mount, and a newer file never was. The mount of a directory
    that the user has moved may stay where no path leads any more, though the kernel's table lists it at the new path.
    So each path is looked up, and the kernel asked what is there. The calling process enters that tree for good, so it
    must be disposable, with a single thread. Raises OSError.

    Args:
        writable, read_only, sockets: as in `enter`.
        views: descriptors of directories that `enter` or earlier calls have bound to themselves, as they are now; of
            those of earlier calls, also as they were before.

    Returns:
        the same for the directories that this call has bound.
    """
    numbers = os.open("/proc/self/fdinfo", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _enter_tree(pid)
    for path in sockets:
        _cover_socket(path)
    by_file: dict[_File, list[int]] = {}
    for view in views:
        by_file.setdefault(_file_at(view), []).append(view)
    found: list[int] = []
    roots = _outermost(writable)
    for path in read_only:
        if path in writable or not _is_in(path, roots) or not _leads_there(path):
            continue
        for directory in _above(path, roots):
            if not _is_mount(directory, numbers):
                both = _bound(directory)
                by_file.setdefault(_file_at(directory), []).extend(both)
                found += both
        for directory in map(str, PurePath(path).parents):
            for view in by_file.get(_file_at(directory), ()):
                _hold_in(view, os.path.relpath(path, directory), path)
        if not _is_read_only(path):
            _attach(_clone(path), path, attributes=_ATTR_RDONLY)
    return found


def _cover_socket(path: str) -> None:
    """Bind a device that is no socket over a socket, so that the kernel refuses to connect (ECONNREFUSED)."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):  # then it cannot be reached here
        kernel.mount(os.devnull, path, "", _MS_BIND, "")


def _enter_tree(pid: int) -> None:
    """Enter the file tree of a process. Raises OSError, also if it is that of this process."""
    descriptors = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("user", "mnt")]
    if _is_own(descriptors[1], "mnt"):  # the kernel has given the number of a dead process to another
        raise ProcessLookupError(errno.ESRCH, "the process has no file tree of its own")
    if not _is_own(descriptors[0], "user"):
        kernel.enter_namespace(descriptors[0], _NEWUSER)
    kernel.enter_namespace(descriptors[1], _NEWNS)


def _is_own(namespace: int, kind: str) -> bool:
    """Return whether this process is in the namespace of that descriptor."""
    return os.path.samestat(os.fstat(namespace), os.stat(f"/proc/self/ns/{kind}"))


def _bound(directory: str) -> tuple[int, int]:
    """Bind a directory to itself; return descriptors of it as it was before, and as it is now."""
    before = os.open(directory, PIN | os.O_CLOEXEC)
    _attach(_clone(directory), directory)
    return before, os.open(directory, PIN | os.O_CLOEXEC)


def _hold_in(view: int, below: str, path: str) -> None:
    """Make the path read-only for whoever has opened a directory above it that was bound to itself or moved later."""
    try:
        there = os.open(below, PIN | os.O_CLOEXEC, dir_fd=view)
    except OSError:  # another file system is mounted there, or it is gone
        return
    try:
        if not _is_read_only(there):
            _attach(_clone(path), below, attributes=_ATTR_RDONLY, place=view)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the directory is another worker's, with a file tree of its own
            raise
    finally:
        os.close(there)


def _file_at(place: str | int) -> _File:
    found = os.stat(place)
    return found.st_dev, found.st_ino


def _is_read_only(place: str | int) -> bool:
    """Return whether the mount that the kernel finds there is read-only."""
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def _is_mount(directory: str, numbers: int) -> bool:
    """Return whether a look-up of the directory enters a mount of its own; `numbers` are `/proc/self/fdinfo`."""
    return _mount_of(directory, numbers) != _mount_of(os.path.dirname(directory), numbers)


def _mount_of(path: str, numbers: int) -> bytes:
    descriptor = os.open(path, PIN | os.O_CLOEXEC)
    try:
        with open(os.open(str(descriptor), os.O_RDONLY | os.O_CLOEXEC, dir_fd=numbers), "rb") as lines:
            return next(line for line in lines if line.startswith(_MOUNT_NUMBER))
    finally:
        os.close(descriptor)


def follow_outside() -> None:
    """Hide later mounts from other namespaces, but receive theirs. Raises OSError."""
    _set("/", _RECURSIVE, propagation=_MS_SLAVE)


def leave(more: int = 0) -> None:
    """Enter a new mount namespace and the namespaces `more`, in a new user namespace if necessary.

    At first, the file tree is a copy of the old one. Raises OSError.
    """
    try:
        kernel.unshare(_NEWNS | more)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        # Because a process that is not dumpable does not own its files in /proc.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        kernel.unshare(_NEWUSER | _NEWNS | more)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _bind_read_only(path: str, roots: Collection[str], bound: set[str]) -> None:
    if path not in roots and _leads_there(path) and _bind_above(path, roots, bound):
        _attach(_clone(path), path, attributes=_ATTR_RDONLY)


def _bind_above(path: str, roots: Collection[str], bound: set[str]) -> bool:
    """Bind the directories between a root and the path to themselves, so that none can be moved away.

    `bound` are those that are bound already: binding them again would copy all mounts below. Returns whether the path
    is in a root.
    """
    for directory in _above(path, roots):
        if directory not in bound:
            _attach(_clone(directory), directory)
            bound.add(directory)
    return _is_in(path, roots)


def _is_in(path: str, roots: Collection[str]) -> bool:
    return any(PurePath(path).is_relative_to(each) for each in roots)


def _above(path: str, roots: Collection[str]) -> Sequence[str]:
    """Return the directories between a root and the path, the outermost first."""
    root = next((each for each in roots if PurePath(path).is_relative_to(each)), None)
    if root is None:
        return ()
    on_the_way = [str(each) for each in PurePath(path).parents if each != PurePath(root) and each.is_relative_to(root)]
    return on_the_way[::-1]


def _renew_devices(shared_bytes: int) -> None:
    if os.path.isdir(_SHARED_MEMORY):
        kernel.mount("tmpfs", _SHARED_MEMORY, "tmpfs", MS_NOSUID | MS_NODEV, f"size={shared_bytes},mode=1777")
    if os.path.isdir(_TERMINALS):
        kernel.mount("devpts", _TERMINALS, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
        if not os.path.islink(_TERMINAL_MAKER):
            _attach(_clone(f"{_TERMINALS}/ptmx"), _TERMINAL_MAKER)
    for path in _other_terminals():
        with suppress(OSError):  # it is gone
            _attach(_clone(os.devnull), path)


def _other_terminals() -> Sequence[str]:
    """Return the consoles and lines that this process may open. In a container /dev/console is the user's terminal."""
    with suppress(OSError), os.scandir(_DEVICES) as found:
        names = [each.name for each in found if _OTHER_TERMINAL.fullmatch(each.name) and not each.is_symlink()]
        return [path for name in names if os.access(path := os.path.join(_DEVICES, name), os.R_OK | os.W_OK)]
    return ()


def _clone(path: str) -> int:
    """A descriptor of a cloned mount of the path, with all mounts below it."""
    return kernel.system_call(kernel.OPEN_TREE, _HERE, os.fsencode(path), _CLONE | os.O_CLOEXEC | _RECURSIVE)


def _attach(clone: int, path: str, attributes: int = 0, place: int = _HERE) -> None:
    try:
        if attributes:
            _set_of(clone, b"", _EMPTY_PATH | _RECURSIVE, attributes, 0)
        if place == _HERE:
            with suppress(FileExistsError):
                os.makedirs(path)  # within a cover
        kernel.system_call(kernel.MOVE_MOUNT, clone, b"", place, os.fsencode(path), _FROM_EMPTY_PATH)
    finally:
        os.close(clone)


def _set(path: str, flags: int, attributes: int = 0, propagation: int = 0) -> None:
    _set_of(_HERE, os.fsencode(path), flags, attributes, propagation)


def _set_of(place: int, path: bytes, flags: int, attributes: int, propagation: int) -> None:
    wanted = _ATTRIBUTES.pack(attributes, 0, propagation, 0)
    kernel.system_call(kernel.MOUNT_SETATTR, place, path, flags, wanted, len(wanted))


def _leads_there(path: str) -> bool:
    return os.path.exists(path) and os.path.realpath(path) == path


def _outermost(paths: Iterable[str]) -> Sequence[str]:
    found: list[str] = []
    for path in sorted(set(paths), key=_depth):
        if not any(PurePath(path).is_relative_to(each) for each in found):
            found.append(path)
    return found


def _depth(path: str) -> int:
    return len(PurePath(path).parts)


def _who() -> str:
    return "root" if os.geteuid() == 0 else "its users"


def main() -> None:
    """Run `hold` as a program, which `runtime.realm` starts; its arguments are JSON on standard input.

    A process of its own, because a process that enters another's namespaces cannot return. The exit code is 1 with the
    reason on standard error if it failed.
    """
    wanted = json.load(sys.stdin)
    try:
        found = hold(wanted["pid"], wanted["writable"], wanted["read_only"], wanted["views"], wanted["sockets"])
        with socket.socket(fileno=wanted["report"]) as reports:
            for view in found:
                passing.send(reports, _A_VIEW, [view])
    except OSError as error:
        sys.exit(str(error))
