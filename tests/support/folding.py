"""A file system like that of macOS: names differ neither in case nor in their Unicode form, and are stored decomposed.

A program that serves the kernel's FUSE protocol (`linux/fuse.h`, version 7.31) with the files of a directory of another
file system: `python -m tests.support.folding BACKING MOUNT`. `folding_directory` starts it, which takes the right to
mount. A file that is found by several spellings of its name is several files for the kernel, with one device and inode,
so that a rename which only changes the case of a name reaches this program. So `/proc/self/fd` tells the spelling with
which a file was opened; on macOS F_GETPATH tells the stored one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_IN: Final = struct.Struct("<IIQQIIIHH")
_OUT: Final = struct.Struct("<IiQ")
_ATTR: Final = struct.Struct("<6Q10I")
_ENTRY: Final = struct.Struct("<4Q2I")
_ATTR_OUT: Final = struct.Struct("<QII")
_INIT_OUT: Final = struct.Struct("<IIIIHHIIHHI7I")
_OPEN_OUT: Final = struct.Struct("<QII")
_SETATTR: Final = struct.Struct("<IIQQQQQQIIIIIIII")
_READ: Final = struct.Struct("<QQII")
_WRITE: Final = struct.Struct("<QQIIQII")
_STATFS: Final = struct.Struct("<5Q4I6I")
_DIRENT: Final = struct.Struct("<QQII")
_MAX_WRITE: Final = 1 << 17
_BUFFER: Final = _MAX_WRITE + 4096
_MODE, _UID, _GID, _SIZE, _ATIME, _MTIME, _FH, _ATIME_NOW, _MTIME_NOW = (1 << bit for bit in range(9))
_ACCESS: Final = 0o3
_NOSUID_NODEV: Final = 6
_ROOT: Final = 1
NAMES: Final = {
    1: "lookup", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink",
    11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs", 18: "release",
    20: "fsync", 25: "fsync", 26: "init", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "nothing", 35: "create",
    45: "rename2",
}  # fmt: skip
"""Requests by their numbers. Others are answered by ENOSYS."""
_UNANSWERED: Final = (2, 36, 42)
"""FORGET, INTERRUPT, BATCH_FORGET."""


def folded(name: str) -> str:
    """What two spellings of one name have in common."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


class Server:
    """Answers requests of the kernel on `device`. A node is a spelling of a path below `backing`."""

    def __init__(self, device: int, backing: str) -> None:
        self._device = device
        self._paths = {_ROOT: backing}
        self._nodes = {backing: _ROOT}
        self._opened: dict[int, int] = {}
        """Nodes of open files, by descriptor."""

    def serve(self) -> None:
        """Answer until the file system is unmounted."""
        while True:
            try:
                request = os.read(self._device, _BUFFER)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            _, number, unique, node, *_ = _IN.unpack_from(request)
            if number in _UNANSWERED:
                continue
            failure, answer = 0, b""
            try:
                handler: Callable[[int, bytes], bytes] | None = getattr(self, f"_{NAMES.get(number)}", None)
                if handler is None:
                    raise OSError(errno.ENOSYS, "unknown request")
                answer = handler(node, request[_IN.size :])
            except OSError as error:
                failure = error.errno or errno.EIO
            with suppress(FileNotFoundError):  # the request was interrupted
                os.write(self._device, _OUT.pack(_OUT.size + len(answer), -failure, unique) + answer)

    # --- names

    def _stored(self, node: int, name: bytes) -> str:
        """The path of a name in a directory, as it is stored, or as it would be."""
        directory, wanted = self._paths[node], os.fsdecode(name.rstrip(b"\0"))
        path = os.path.join(directory, unicodedata.normalize("NFD", wanted))
        if os.path.lexists(path):
            return path
        sought = folded(wanted)
        for each in os.listdir(directory):
            if folded(each) == sought:
                return os.path.join(directory, each)
        return path

    def _entry(self, node: int, name: bytes) -> bytes:
        path = self._stored(node, name)
        attributes = _packed(os.lstat(path))
        key = f"{path}\0{os.fsdecode(name)}"
        number = self._nodes.setdefault(key, len(self._paths) + 1)
        self._paths[number] = path
        return _ENTRY.pack(number, 0, 0, 0, 0, 0) + attributes

    def _moved(self, old: str, new: str) -> None:
        for number, path in self._paths.items():
            if path == old or path.startswith(old + "/"):
                self._paths[number] = new + path[len(old) :]

    # --- requests

    def _init(self, _node: int, _body: bytes) -> bytes:
        return _INIT_OUT.pack(7, 31, 1 << 16, 0, 12, 10, _MAX_WRITE, 1, 0, 0, 0, *[0] * 7)

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(node, body)

    def _getattr(self, node: int, _body: bytes) -> bytes:
        return _ATTR_OUT.pack(0, 0, 0) + _packed(self._stat(node))

    def _stat(self, node: int) -> os.stat_result:
        try:
            return os.lstat(self._paths[node])
        except FileNotFoundError:
            descriptor = next((each for each, known in self._opened.items() if known == node), None)
            if descriptor is None:
                raise
            return os.fstat(descriptor)

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, _, handle, size, _, atime, mtime, _, ansec, mnsec, _, mode, _, uid, gid, _ = _SETATTR.unpack_from(body)
        target: int | str = handle if valid & _FH else self._paths[node]
        if valid & _SIZE:
            os.truncate(target, size)
        if valid & _MODE:
            os.chmod(target, stat.S_IMODE(mode))
        if valid & (_UID | _GID):
            path = self._paths[node]
            os.chown(path, uid if valid & _UID else -1, gid if valid & _GID else -1, follow_symlinks=False)
        if valid & (_ATIME | _MTIME):
            before = self._stat(node)
            now = time.time_ns()
            access = now if valid & _ATIME_NOW else atime * 10**9 + ansec if valid & _ATIME else before.st_atime_ns
            change = now if valid & _MTIME_NOW else mtime * 10**9 + mnsec if valid & _MTIME else before.st_mtime_ns
            os.utime(self._paths[node], ns=(access, change), follow_symlinks=False)
        return self._getattr(node, b"")

    def _readlink(self, node: int, _body: bytes) -> bytes:
        return os.fsencode(os.readlink(self._paths[node]))

    def _symlink(self, node: int, body: bytes) -> bytes:
        name, target, _ = body.split(b"\0", 2)
        os.symlink(target, os.fsencode(self._stored(node, name)))
        return self._entry(node, name)

    def _mknod(self, node: int, body: bytes) -> bytes:
        mode, device = struct.unpack_from("<II", body)
        os.mknod(self._stored(node, body[16:]), mode, device)
        return self._entry(node, body[16:])

    def _mkdir(self, node: int, body: bytes) -> bytes:
        os.mkdir(self._stored(node, body[8:]), struct.unpack_from("<I", body)[0])
        return self._entry(node, body[8:])

    def _unlink(self, node: int, body: bytes) -> bytes:
        os.unlink(self._stored(node, body))
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        os.rmdir(self._stored(node, body))
        return b""

    def _rename(self, node: int, body: bytes) -> bytes:
        return self._renamed(node, struct.unpack_from("<Q", body)[0], 0, body[8:])

    def _rename2(self, node: int, body: bytes) -> bytes:
        new, flags = struct.unpack_from("<QI", body)
        return self._renamed(node, new, flags, body[16:])

    def _renamed(self, node: int, new: int, flags: int, names: bytes) -> bytes:
        old_name, new_name, _ = names.split(b"\0", 2)
        source, target = self._stored(node, old_name), self._stored(new, new_name)
        if flags & 1 and os.path.lexists(target):
            raise OSError(errno.EEXIST, "there is one")
        if flags & ~1:
            raise OSError(errno.EINVAL, "unknown flags")
        if source == target:  # another spelling of the same name
            spelled = unicodedata.normalize("NFD", os.fsdecode(new_name))
            target = os.path.join(self._paths[new], spelled)
        os.rename(source, target)
        self._moved(source, target)
        return b""

    def _link(self, node: int, body: bytes) -> bytes:
        os.link(self._paths[struct.unpack_from("<Q", body)[0]], self._stored(node, body[8:]), follow_symlinks=False)
        return self._entry(node, body[8:])

    def _open_file(self, node: int, path: str, flags: int, mode: int = 0) -> bytes:
        # The kernel reads parts of a page, also of a file that was opened for writing alone.
        access = os.O_RDWR if flags & _ACCESS == os.O_WRONLY else flags & _ACCESS
        rest = flags & (os.O_TRUNC | os.O_CREAT | os.O_EXCL)
        descriptor = os.open(path, access | rest | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        self._opened[descriptor] = node
        return _OPEN_OUT.pack(descriptor, 0, 0)

    def _open(self, node: int, body: bytes) -> bytes:
        return self._open_file(node, self._paths[node], struct.unpack_from("<I", body)[0])

    def _read(self, _node: int, body: bytes) -> bytes:
        handle, offset, size, _ = _READ.unpack_from(body)
        return os.pread(handle, size, offset)

    def _write(self, _node: int, body: bytes) -> bytes:
        handle, offset, size, *_ = _WRITE.unpack_from(body)
        return struct.pack("<II", os.pwrite(handle, body[_WRITE.size : _WRITE.size + size], offset), 0)

    def _statfs(self, node: int, _body: bytes) -> bytes:
        found = os.statvfs(self._paths[node])
        counts = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return _STATFS.pack(*counts, found.f_bsize, found.f_namemax, found.f_frsize, 0, *[0] * 6)

    def _release(self, _node: int, body: bytes) -> bytes:
        descriptor = struct.unpack_from("<Q", body)[0]
        self._opened.pop(descriptor, None)
        os.close(descriptor)
        return b""

    def _fsync(self, _node: int, _body: bytes) -> bytes:
        return b""

    def _nothing(self, _node: int, _body: bytes) -> bytes:
        return b""

    def _opendir(self, node: int, _body: bytes) -> bytes:
        os.listdir(self._paths[node])
        return _OPEN_OUT.pack(0, 0, 0)

    def _releasedir(self, _node: int, _body: bytes) -> bytes:
        return b""

    def _readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size, _ = _READ.unpack_from(body)
        directory, found = self._paths[node], b""
        for number, name in enumerate([".", "..", *sorted(os.listdir(directory))][offset:], offset + 1):
            known = os.lstat(os.path.join(directory, name))
            encoded = os.fsencode(name)
            record = _DIRENT.pack(known.st_ino, number, len(encoded), stat.S_IFMT(known.st_mode) >> 12) + encoded
            record += bytes(-len(record) % 8)
            if len(found) + len(record) > size:
                break
            found += record
        return found

    def _create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        name = body[16:]
        opened = self._open_file(0, self._stored(node, name), flags | os.O_CREAT, mode)
        entry = self._entry(node, name)
        self._opened[_OPEN_OUT.unpack(opened)[0]] = _ENTRY.unpack_from(entry)[0]
        return entry + opened


def _packed(found: os.stat_result) -> bytes:
    times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
    return _ATTR.pack(
        found.st_ino,
        found.st_size,
        found.st_blocks,
        *(each // 10**9 for each in times),
        *(each % 10**9 for each in times),
        found.st_mode,
        found.st_nlink,
        found.st_uid,
        found.st_gid,
        0,
        found.st_blksize,
        0,
    )


def mount(device: int, place: str) -> None:
    """Raises OSError, for example if that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other".encode()
    if libc.mount(b"folding", os.fsencode(place), b"fuse", ctypes.c_ulong(_NOSUID_NODEV), options) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def folds(folder: Path) -> bool:
    """Whether this directory is of this kind by itself, as on macOS."""
    (folder / "spelling").touch()
    try:
        return (folder / "SPELLING").exists()
    finally:
        (folder / "spelling").unlink()


@contextmanager
def folding_directory(folder: Path) -> Generator[Path]:
    """A directory of this kind, which is unmounted at the end. Raises OSError if nothing may be mounted."""
    if folds(folder):
        (folder / "mount").mkdir()
        yield folder / "mount"
        return
    backing, place = folder / "backing", folder / "mount"
    backing.mkdir()
    place.mkdir()
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        mount(device, str(place))
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.folding", str(device), str(backing)],
            cwd=Path(__file__).parents[2],
            pass_fds=[device],
        )
    finally:
        os.close(device)
    try:
        yield place
    finally:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.umount2(os.fsencode(place), 2)  # MNT_DETACH: also while it is in use
        try:
            server.wait(2)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


if __name__ == "__main__":
    Server(int(sys.argv[1]), sys.argv[2]).serve()
