"""A file system that keeps each operation, and fails, delays or announces the n-th: `mounted` serves it in a process.

The process speaks the kernel's FUSE protocol (`linux/fuse.h`, version 7.31) and keeps everything in memory (`disk`).
The kernel passes each write, rename, truncation, removal and fsync of any process to it, in order, and waits for the
answer.
Two kinds of changes escape: the kernel writes pages of shared mappings whenever it likes, and extended attributes are
not supported.

The test controls it over a pipe with pickled commands. The number of operations so far is also in shared memory, so
that a test that receives a message knows at once how many operations preceded it. Needs the right to mount.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import pickle
import select
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from tests.faults.disk import ROOT, Disk, Inode, Kind, Named, Operation

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
_STATX_OUT: Final = struct.Struct("<QII16xIIQIIIHxxQQQQ" + "qIi" * 4 + "4I112x")
_STATX_BASIC_AND_BTIME: Final = 0xFFF
_COUNT: Final = struct.Struct("<Q")
_MAX_WRITE: Final = 1 << 17
_BUFFER: Final = _MAX_WRITE + 4096
_MODE, _UID, _GID, _SIZE, _ATIME, _MTIME, _FH, _ATIME_NOW, _MTIME_NOW = (1 << bit for bit in range(9))
_NOREPLACE, _EXCHANGE = 1, 2
_NOSUID_NODEV: Final = 6
_CACHED: Final = 3600
"""Seconds for which the kernel may remember names and attributes: nothing changes behind its back."""
_ROOM: Final = 1 << 32
_REQUESTS: Final = {
    1: "lookup", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink",
    11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs", 18: "nothing",
    20: "fsync", 26: "init", 27: "open", 28: "readdir", 29: "nothing", 30: "fsync", 35: "create", 45: "rename2",
    52: "statx",
}  # fmt: skip
"""By their numbers. Others are answered by ENOSYS."""
_UNANSWERED: Final = (2, 36, 42)
"""FORGET, INTERRUPT, BATCH_FORGET."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the n-th operation of these kinds from now on; n counts from 1, and each fault comes `times`.

    - `fail`: the operation fails with `number`, and is not performed.
    - `short`: half of a write is performed.
    - `slow`: the answer comes after `seconds`.
    - `announce`: the operation is performed, and the answer waits until the test says so, but no longer than
      `held` seconds.
    """

    does: Literal["fail", "short", "slow", "announce"]
    n: int
    kinds: tuple[Kind, ...] = ("make", "name", "write", "truncate", "attributes", "fsync")
    number: int = errno.EIO
    seconds: float = 0.0
    held: float = 3.0
    """A process that waits for this file system may hold locks of the kernel, so that whoever reads its `/proc`, such
    as the test or `ps`, waits, too: only the file system itself can end that.
    """
    times: int = 1
    every: int = 1
    """After the n-th operation, the fault comes at each so many further ones."""
    below: str = ""
    """Only operations on paths that contain this."""


@dataclass(slots=True)
class _State:
    """What `Disk` does not keep of an inode."""

    times: list[int] = field(default_factory=lambda: [time.time_ns()] * 3)
    born: int = field(default_factory=time.time_ns)
    parent: int = ROOT
    name: str = ""


class Server:
    """Answers the kernel on `device` and the test on `control`."""

    def __init__(self, device: int, control: socket.socket, counter: mmap.mmap) -> None:
        self._device = device
        self._control = control
        self._counter = ctypes.c_uint64.from_buffer(counter)  # one store; `struct` writes zeros first
        self._disk = Disk()
        self._states = {ROOT: _State()}
        self._operations: list[Operation] = []
        self._fault: Fault | None = None
        self._seen = 0
        self._came = 0
        self._delay = 0.0
        self._program = 0

    def serve(self) -> None:
        """Answer until the file system is unmounted."""
        poll = select.poll()
        poll.register(self._device, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        while True:
            for descriptor, event in poll.poll():
                if descriptor == self._control.fileno():
                    self._obey(_received(self._control))
                elif event & select.POLLERR or not self._answer():
                    return

    def _obey(self, command: object) -> None:
        match command:
            case ("arm", fault):
                self._fault, self._seen, self._came = fault, 0, 0
                _send(self._control, None)
            case ("go",):
                pass  # the test answers an operation that was held for too long
            case ("came",):
                _send(self._control, self._came)
            case ("record", path):
                Path(path).write_bytes(pickle.dumps(self._operations))
                _send(self._control, None)
            case other:
                raise ValueError(other)

    def _answer(self) -> bool:
        try:
            request = os.read(self._device, _BUFFER)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return False
            if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                return True
            raise
        _, number, unique, node, _, _, self._program, *_ = _IN.unpack_from(request)
        if number in _UNANSWERED:
            return True
        failure, answer = 0, b""
        try:
            handler: Callable[[int, bytes], bytes] | None = getattr(self, f"_{_REQUESTS.get(number)}", None)
            if handler is None:
                raise OSError(errno.ENOSYS, "unknown request")
            answer = handler(node, request[_IN.size :])
        except OSError as error:
            failure = error.errno or errno.EIO
        reply = _OUT.pack(_OUT.size + len(answer), -failure, unique) + answer
        if self._delay:
            threading.Timer(self._delay, self._reply, [reply]).start()
            self._delay = 0.0
        else:
            self._reply(reply)
        return True

    def _reply(self, reply: bytes) -> None:
        with suppress(OSError):  # the request was interrupted, or nothing is mounted any more
            os.write(self._device, reply)

    # --- operations

    def _perform(self, operation: Operation) -> Operation:
        """Keep it and perform it, unless a fault is due. Returns what was performed."""
        fault = self._due(operation)
        if fault is not None and fault.does == "fail":
            raise OSError(fault.number, "injected")
        if fault is not None and fault.does == "short" and len(operation.data) > 1:
            operation = replace(operation, data=operation.data[: len(operation.data) // 2])
        operation = replace(operation, program=self._program)
        self._disk.apply(operation)
        now = time.time_ns()
        if operation.kind == "make":
            self._states[operation.inode] = _State(parent=operation.names[0].directory, name=operation.names[0].name)
        elif operation.kind in ("write", "truncate"):
            self._states[operation.inode].times[1] = now
        self._states[operation.inode].times[2] = now
        for named in operation.names:
            self._states[named.directory].times[1:] = [now, now]
            if named.inode is not None:
                self._states[named.inode].parent, self._states[named.inode].name = named.directory, named.name
        self._operations.append(operation)
        self._counter.value = len(self._operations)
        if fault is not None and fault.does == "slow":
            self._delay = fault.seconds
        if fault is not None and fault.does == "announce":
            _send(self._control, ("reached", operation.kind, self._path(operation.inode)))
            self._hold(fault.held)
        return operation

    def _hold(self, seconds: float) -> None:
        """Wait until the test says so, but no longer than this."""
        deadline = time.monotonic() + seconds
        while select.select([self._control], [], [], max(0.0, deadline - time.monotonic()))[0]:
            command = _received(self._control)
            if command == ("go",):
                return
            self._obey(command)

    def _due(self, operation: Operation) -> Fault | None:
        fault = self._fault
        if fault is None or operation.kind not in fault.kinds:
            return None
        if fault.does == "short" and operation.kind != "write":
            return None
        if fault.below and fault.below not in self._path_of(operation):
            return None
        self._seen += 1
        if self._seen < fault.n or (self._seen - fault.n) % fault.every:
            return None
        self._came += 1
        if self._came >= fault.times:
            self._fault = None
        return fault

    def _path_of(self, operation: Operation) -> str:
        if operation.names:
            return f"{self._path(operation.names[0].directory)}/{operation.names[0].name}"
        return self._path(operation.inode)

    def _path(self, inode: int) -> str:
        parts: list[str] = []
        while inode != ROOT:
            parts.append(self._states[inode].name)
            inode = self._states[inode].parent
        return "/" + "/".join(reversed(parts))

    # --- answers

    def _inode(self, node: int) -> Inode:
        try:
            return self._disk.inodes[node]
        except KeyError:
            raise OSError(errno.ESTALE, "no such inode") from None

    def _child(self, node: int, name: str) -> int:
        try:
            return self._inode(node).names[name]
        except KeyError:
            raise OSError(errno.ENOENT, "no such name") from None

    def _attributes(self, node: int) -> bytes:
        inode, state = self._inode(node), self._states[node]
        size = 4096 if stat.S_ISDIR(inode.mode) else len(inode.data)
        seconds, rest = ([each // 10**9 for each in state.times], [each % 10**9 for each in state.times])
        links = 2 if stat.S_ISDIR(inode.mode) else inode.links
        return _ATTR.pack(node, size, -(-size // 512), *seconds, *rest, inode.mode, links, *inode.owner, 0, 4096, 0)

    def _entry(self, node: int) -> bytes:
        return _ENTRY.pack(node, 0, _CACHED, _CACHED, 0, 0) + self._attributes(node)

    def _init(self, _node: int, _body: bytes) -> bytes:
        big_writes = 1 << 5
        return _INIT_OUT.pack(7, 31, 1 << 16, big_writes, 12, 10, _MAX_WRITE, 1, 0, 0, 0, *[0] * 7)

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self._child(node, _name(body)))

    def _getattr(self, node: int, _body: bytes) -> bytes:
        return _ATTR_OUT.pack(_CACHED, 0, 0) + self._attributes(node)

    def _statx(self, node: int, _body: bytes) -> bytes:
        inode, state = self._inode(node), self._states[node]
        size = 4096 if stat.S_ISDIR(inode.mode) else len(inode.data)
        links = 2 if stat.S_ISDIR(inode.mode) else inode.links
        accessed, modified, changed = state.times
        times = [part for each in (accessed, state.born, changed, modified) for part in (*divmod(each, 10**9), 0)]
        known = (_STATX_BASIC_AND_BTIME, 4096, 0, links, *inode.owner, inode.mode, node, size, -(-size // 512), 0)
        return _STATX_OUT.pack(_CACHED, 0, 0, *known, *times, 0, 0, 0, 0)

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, ansec, mnsec, _, mode, _, uid, gid, _ = _SETATTR.unpack_from(body)
        inode = self._inode(node)
        if valid & _SIZE:
            self._perform(Operation("truncate", node, size=size))
        if valid & (_MODE | _UID | _GID):
            owner = (uid if valid & _UID else inode.owner[0], gid if valid & _GID else inode.owner[1])
            new = stat.S_IFMT(inode.mode) | stat.S_IMODE(mode) if valid & _MODE else inode.mode
            self._perform(Operation("attributes", node, mode=new, owner=owner))
        now, times = time.time_ns(), self._states[node].times
        if valid & _ATIME:
            times[0] = now if valid & _ATIME_NOW else atime * 10**9 + ansec
        if valid & _MTIME:
            times[1] = now if valid & _MTIME_NOW else mtime * 10**9 + mnsec
        return self._getattr(node, b"")

    def _readlink(self, node: int, _body: bytes) -> bytes:
        return bytes(self._inode(node).data)

    def _make(self, node: int, name: str, mode: int, data: bytes = b"") -> int:
        if name in self._inode(node).names:
            raise OSError(errno.EEXIST, "the name is taken")
        number, owner = len(self._disk.inodes) + 1, (os.getuid(), os.getgid())
        self._perform(Operation("make", number, (Named(node, name, number),), data=data, mode=mode, owner=owner))
        return number

    def _symlink(self, node: int, body: bytes) -> bytes:
        name, target, _ = body.split(b"\0", 2)
        return self._entry(self._make(node, os.fsdecode(name), stat.S_IFLNK | 0o777, target))

    def _mknod(self, node: int, body: bytes) -> bytes:
        mode, _, umask = struct.unpack_from("<III", body)
        return self._entry(self._make(node, _name(body[16:]), stat.S_IFMT(mode) | stat.S_IMODE(mode) & ~umask))

    def _mkdir(self, node: int, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("<II", body)
        return self._entry(self._make(node, _name(body[8:]), stat.S_IFDIR | stat.S_IMODE(mode) & ~umask))

    def _unlink(self, node: int, body: bytes) -> bytes:
        child = self._child(node, _name(body))
        self._perform(Operation("name", child, (Named(node, _name(body), None),)))
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        if self._inode(self._child(node, _name(body))).names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        return self._unlink(node, body)

    def _rename(self, node: int, body: bytes) -> bytes:
        return self._renamed(node, struct.unpack_from("<Q", body)[0], 0, body[8:])

    def _rename2(self, node: int, body: bytes) -> bytes:
        new, flags = struct.unpack_from("<QI", body)
        return self._renamed(node, new, flags, body[16:])

    def _renamed(self, node: int, new: int, flags: int, names: bytes) -> bytes:
        source, target = (os.fsdecode(each) for each in names.split(b"\0")[:2])
        moved, replaced = self._child(node, source), self._inode(new).names.get(target)
        if flags & _EXCHANGE:
            other = self._child(new, target)
            self._perform(Operation("name", moved, (Named(node, source, other), Named(new, target, moved))))
            return b""
        if flags & _NOREPLACE and replaced is not None:
            raise OSError(errno.EEXIST, "the name is taken")
        if replaced is not None and self._inode(replaced).names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        if replaced != moved:
            names_ = (Named(node, source, None), Named(new, target, moved))
            self._perform(Operation("name", moved, names_, replaces=replaced is not None))
        return b""

    def _link(self, node: int, body: bytes) -> bytes:
        number, name = struct.unpack_from("<Q", body)[0], _name(body[8:])
        if name in self._inode(node).names:
            raise OSError(errno.EEXIST, "the name is taken")
        self._perform(Operation("name", number, (Named(node, name, number),)))
        return self._entry(number)

    def _open(self, node: int, _body: bytes) -> bytes:
        self._inode(node)
        return _OPEN_OUT.pack(0, 0, 0)

    def _create(self, node: int, body: bytes) -> bytes:
        _, mode, umask = struct.unpack_from("<III", body)
        name = _name(body[16:])
        return self._entry(self._make(node, name, stat.S_IFREG | stat.S_IMODE(mode) & ~umask)) + self._open(node, b"")

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size, _ = _READ.unpack_from(body)
        return bytes(self._inode(node).data[offset : offset + size])

    def _write(self, node: int, body: bytes) -> bytes:
        _, offset, size, *_ = _WRITE.unpack_from(body)
        self._inode(node)
        done = self._perform(Operation("write", node, offset=offset, data=body[_WRITE.size : _WRITE.size + size]))
        return struct.pack("<II", len(done.data), 0)

    def _statfs(self, _node: int, _body: bytes) -> bytes:
        blocks = _ROOM // 4096
        return _STATFS.pack(blocks, blocks, blocks, 1 << 20, 1 << 20, 4096, 255, 4096, 0, *[0] * 6)

    def _fsync(self, node: int, _body: bytes) -> bytes:
        self._perform(Operation("fsync", node))
        return b""

    def _nothing(self, _node: int, _body: bytes) -> bytes:
        return b""

    def _readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size, _ = _READ.unpack_from(body)
        inode, found = self._inode(node), b""
        everything = [(".", node), ("..", self._states[node].parent), *sorted(inode.names.items())]
        for number, (name, child) in enumerate(everything[offset:], offset + 1):
            encoded = os.fsencode(name)
            kind = stat.S_IFMT(self._disk.inodes[child].mode) >> 12
            record = _DIRENT.pack(child, number, len(encoded), kind) + encoded
            record += bytes(-len(record) % 8)
            if len(found) + len(record) > size:
                break
            found += record
        return found


def _name(body: bytes) -> str:
    return os.fsdecode(body.split(b"\0", 1)[0])


def _send(control: socket.socket, value: object) -> None:
    data = pickle.dumps(value)
    control.sendall(_COUNT.pack(len(data)) + data)


def _received(control: socket.socket) -> Any:
    head = control.recv(_COUNT.size, socket.MSG_WAITALL)
    if len(head) < _COUNT.size:
        raise SystemExit
    return pickle.loads(control.recv(_COUNT.unpack(head)[0], socket.MSG_WAITALL))


class Mounted:
    """The test's side of a mounted file system."""

    def __init__(self, place: Path, control: socket.socket, counter: mmap.mmap) -> None:
        self.place = place
        self._control = control
        self._counter = counter

    @property
    def count(self) -> int:
        """How many operations there were."""
        return _COUNT.unpack_from(self._counter)[0]

    def arm(self, fault: Fault | None) -> None:
        """Let this fault come next; forget the one before."""
        self._ask("arm", fault)

    def came(self) -> int:
        """How often the fault has come since it was armed."""
        return self._ask("came")

    def reached(self, seconds: float) -> tuple[Kind, str] | None:
        """Wait for an announced operation; the file system answers nobody until `go`, or for the fault's time."""
        if not select.select([self._control], [], [], seconds)[0]:
            return None
        _, kind, path = _received(self._control)
        return kind, path

    def go(self) -> None:
        _send(self._control, ("go",))

    def record(self, path: Path) -> Sequence[Operation]:
        """All operations until now; `path` is a file for them on another file system."""
        self._ask("record", str(path))
        return pickle.loads(path.read_bytes())

    def _ask(self, *command: object) -> Any:
        _send(self._control, command)
        while True:
            answer = _received(self._control)
            if not (isinstance(answer, tuple) and answer[0] == "reached"):
                return answer
            self.go()  # a fault that nobody waits for any more


@contextmanager
def mounted(place: Path) -> Generator[Mounted]:
    """Mount an empty file system on the directory. Raises OSError if nothing may be mounted."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    ours, theirs = socket.socketpair()
    memory = os.memfd_create("count", os.MFD_CLOEXEC)
    os.ftruncate(memory, _COUNT.size)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        identity = f"user_id={os.getuid()},group_id={os.getgid()}"
        options = f"fd={device},rootmode=40000,{identity},allow_other,default_permissions".encode()
        if libc.mount(b"faults", os.fsencode(place), b"fuse", ctypes.c_ulong(_NOSUID_NODEV), options) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.filesystem", *map(str, (device, theirs.fileno(), memory))],
            cwd=Path(__file__).parents[2],
            pass_fds=[device, theirs.fileno(), memory],
        )
        counter = mmap.mmap(memory, _COUNT.size)
    finally:
        os.close(device)
        os.close(memory)
        theirs.close()
    try:
        yield Mounted(place, ours, counter)
    finally:
        libc.umount2(os.fsencode(place), 2)  # MNT_DETACH: also while it is in use
        ours.close()
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def why_not() -> str:
    """Why nothing can be mounted here; empty if it can."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder)):
                return ""
        except OSError as error:
            return f"no file system can be mounted here: {error}"


if __name__ == "__main__":
    _device, _control, _memory = map(int, sys.argv[1:])
    Server(_device, socket.socket(fileno=_control), mmap.mmap(_memory, _COUNT.size)).serve()
