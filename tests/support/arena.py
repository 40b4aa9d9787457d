"""The world outside of a sandbox as attacks find it, and the process that attacks.

`Arena` has files of a user, a process that is the victim, sockets that listen, a terminal, shared memory. `Attacker` is
a forked process of that user, in a domain or in none, that runs one attack after the other; after each that changed
something the arena is as before. Names of the arena are those that the lines of an attack find, beside the functions of
`_tools`. Forked rather than started, because another user may not be able to read this interpreter's library.
"""

from __future__ import annotations

import ctypes
import encodings.idna  # loaded here, where it can be read
import fcntl
import json
import mmap
import os
import pathlib
import platform
import py_compile
import resource
import select
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.core.domain import Domain, Layer
from engine.files.protected import Protection
from engine.runtime.sandbox.entering import enter
from engine.runtime.sandbox.seccomp import AARCH64, X86_64
from tests.support.attacks import Attack

ORDINARY_USER: Final = 12345
_SECONDS: Final = 20
_FOLLOW: Final = 0x400
"""AT_SYMLINK_FOLLOW, which `os.link` leaves out."""
_SET_SIGNAL: Final = 10
"""F_SETSIG, which Python has no name for."""
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "openat": (257, 56),
    "openat2": (437, 437),
    "fchmodat2": (452, 452),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "tgkill": (234, 131),
    "renameat2": (316, 276),
    "name_to_handle_at": (303, 264),
    "pidfd_getfd": (438, 438),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "rt_sigqueueinfo": (129, 138),
    "tkill": (200, 130),
    "fanotify_init": (300, 262),
    "acct": (163, 89),
}
"""Those that the filter does not name, on x86_64 and on aarch64."""
_IS_X86: Final = platform.machine() == "x86_64"
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Witness(NamedTuple):
    """Each file's state; bytes that were written to the terminal; and the victim's state, None where it has ended."""

    files: Mapping[Path, tuple[object, ...]]
    printed: int
    process: object


class Arena:
    """What there is to attack, of one user: all of it is theirs."""

    def __init__(self, base: Path, user: int) -> None:
        self.base, self.user = base, user
        self.scratch, self.state = base / "scratch", base / "state"
        self.out, self.work = base / "outside", base / "workspace"
        self._sockets = [*self._listen()]
        self.master, slave = os.openpty()
        self.tty = os.ttyname(slave)
        self._slave = slave
        self.shm = Path("/dev/shm") / base.name
        self.victim = 0
        os.chmod(base, 0o755)
        for folder in (self.scratch, self.state):
            folder.mkdir()
        (self.state / "db").write_text("secret")
        self._key = 0x52570000 ^ os.getpid()  # of its own, where several are attacked at once
        self._segment = _libc.shmget(self._key, 4096, 0o1000 | 0o666)
        self._make_files()
        self._start_victim()
        self._give(self.scratch, self.state, Path(self.tty))

    def names(self) -> dict[str, Any]:
        """What the lines of an attack find."""
        return {
            **_tools(self),
            "a": str(self.out / "a"),
            "out": str(self.out),
            "work": str(self.work),
            "home": str(self.out / "home"),
            "scratch": str(self.scratch),
            "state": str(self.state),
            "mark": self.base.name,
            "victim_fd": self.victim_descriptor,
            "tty": self.tty,
            "tty_device": os.stat(self.tty).st_dev,
            "shm": str(self.shm),
            "segment_key": self._key,
            "abstract": f"\0{self.base.name}",
            "abstract_datagram": f"\0{self.base.name}-datagram",
            "path_socket": str(self.base / "socket"),
            "tcp": self._sockets[0].getsockname()[1],
            "udp": self._sockets[1].getsockname()[1],
            "tcp6": self._sockets[-1].getsockname()[1] if self._sockets[-1].family == socket.AF_INET6 else 0,
            "disk": next((path for path in ("/dev/vda", "/dev/sda", "/dev/nvme0n1") if os.path.exists(path)), ""),
            "counter": struct.pack("IIQQQQQ16x", 1, 64, 1, 0, 0, 0, 0x60),
        }

    def domain(self, without: tuple[Layer, ...]) -> Domain:
        """As that of the mode `auto`, because all that is held there is held in the others, too."""
        return Domain(
            scratch=str(self.scratch),
            writable=(str(self.work),),
            read_only=Protection((str(self.work),)).places(),
            hidden=(str(self.state),),
            without=without,
        )

    def witness(self) -> Witness:
        """All that an attack could have changed."""
        trees = (each for top in (self.out, self.work) for each in (top, *top.rglob("*")))
        files = {path: _state(path) for path in (*trees, self.shm) if os.path.lexists(path)}
        return Witness(files, self._printed(), _process(self.victim))

    def restore(self, before: Witness, after: Witness) -> None:
        """Makes everything as it was."""
        for path in sorted({path for path in after.files if after.files[path] != before.files.get(path)}, reverse=True):
            if path.is_dir() and not path.is_symlink() and path in before.files:
                path.chmod(0o755)
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        if after.files != before.files:
            self._make_files()
        if after.process != before.process:
            self._end_victim()
            self._start_victim()
        for left in Path("/tmp").glob(f"{self.base.name}?*"):
            left.unlink()

    def _make_files(self) -> None:
        for folder in (
            *("empty", "folder", "bin", "home/.ssh", "site-packages"),
            *("project/.git/hooks", "project/__pycache__"),
        ):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        for folder in (".git/hooks", ".git/modules/m/hooks", "project", "nested/.git/hooks"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        for name in (".git/HEAD", ".git/config", ".git/modules/m/HEAD", ".git/modules/m/config", "nested/.git/config"):
            (self.work / name).touch()
        for name in ("a", "b", "folder/inner", "home/.bashrc", "home/.ssh/authorized_keys", "bin/ls", "project/m.py"):
            if not (self.out / name).exists():
                (self.out / name).write_text("pass\n")
        for path in (self.out / "base", self.out / "project/.git/config", self.shm):
            path.touch()
        if not (self.out / "link").is_symlink():
            (self.out / "link").symlink_to("a")
        self._give(self.out, *self.out.rglob("*"), self.work, *self.work.rglob("*"), self.shm)
        if os.geteuid() == 0:
            (self.out / "id").unlink(missing_ok=True)
            shutil.copy("/usr/bin/id", self.out / "id")
            os.chmod(self.out / "id", 0o4755)

    def close(self) -> None:
        self._end_victim()
        for each in self._sockets:
            each.close()
        os.close(self.master)
        os.close(self._slave)
        self.shm.unlink(missing_ok=True)
        _libc.shmctl(self._segment, 0, None)

    def _listen(self) -> Iterator[socket.socket]:
        for family, kind, address in (
            (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.base.name}"),
            (socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self.base.name}-datagram"),
            (socket.AF_UNIX, socket.SOCK_STREAM, str(self.base / "socket")),
            (socket.AF_UNIX, socket.SOCK_DGRAM, str(self.base / "socket-datagram")),
            (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
        ):
            with suppress(OSError):  # a machine may have no IPv6
                listening = socket.socket(family, kind)
                listening.bind(address)
                if kind == socket.SOCK_STREAM:
                    listening.listen(128)
                yield listening
        for path in self.base.glob("socket*"):
            path.chmod(0o777)

    def _printed(self) -> int:
        return fcntl.ioctl(self.master, 0x541B, bytes(4))[0]  # FIONREAD: unread bytes

    def _start_victim(self) -> None:
        self.victim_descriptor = os.open(self.out / "b", os.O_RDWR)
        ready, says = os.pipe()
        self.victim = os.fork()
        if self.victim == 0:
            _libc.prctl(1, int(signal.SIGKILL), 0, 0, 0)  # with its parent
            _drop_to(self.user)
            os.setpgid(0, 0)
            os.chdir(self.out)
            signal.signal(signal.SIGUSR1, _nothing)
            os.write(says, b"x")
            while True:
                signal.pause()
        os.read(ready, 1)
        for each in (ready, says, self.victim_descriptor):
            os.close(each)

    def _end_victim(self) -> None:
        if self.victim:
            with suppress(ProcessLookupError):
                os.kill(self.victim, signal.SIGKILL)
            os.waitpid(self.victim, 0)
            self.victim = 0

    def _give(self, *paths: Path) -> None:
        for path in paths:
            os.chown(path, self.user, -1, follow_symlinks=False)


class Attacker:
    """A process of the arena's user; in the domain without these layers, or in none where they are None."""

    def __init__(self, arena: Arena, without: tuple[Layer, ...] | None) -> None:
        self._arena = arena
        asks, self._asks = os.pipe()
        self._answers, answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _attack(arena, without, asks, answers)
        os.close(asks)
        os.close(answers)
        self._reader = open(self._answers, "rb")  # noqa: SIM115 -- closed by `close`
        self.layers: tuple[Layer, ...] = tuple(json.loads(self._reader.readline()))

    def run(self, attack: Attack) -> str | None:
        """Why the attack failed; None where it got out. What it changed is as before afterwards."""
        before = self._arena.witness()
        os.write(
            self._asks, json.dumps([attack.source, self._arena.victim, self._arena.victim_descriptor]).encode() + b"\n"
        )
        line = self._reader.readline()
        assert line, f"the attacker did not survive {attack.name}"
        failed: str | None = json.loads(line)
        after = self._arena.witness()
        assert after == before or failed is None, f"{attack.name} failed with {failed}, and changed something"
        self._arena.restore(before, after)
        return failed

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.close(self._asks)
        self._reader.close()
        os.waitpid(self._pid, 0)


@contextmanager
def attacking(user: int, without: tuple[Layer, ...] | None) -> Generator[Attacker]:
    """An attacker in an arena of its own."""
    with tempfile.TemporaryDirectory(prefix="arena-", dir="/tmp") as base:
        arena = Arena(Path(base), user)
        try:
            attacker = Attacker(arena, without)
            try:
                yield attacker
            finally:
                attacker.close()
        finally:
            arena.close()


def _attack(arena: Arena, without: tuple[Layer, ...] | None, asks: int, answers: int) -> None:
    try:
        names = arena.names()
        for copy, place in [(fcntl.fcntl(each, fcntl.F_DUPFD, 1000), 3 + n) for n, each in enumerate((asks, answers))]:
            os.dup2(copy, place)
        os.closerange(5, 4096)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _drop_to(arena.user)
        layers = () if without is None else enter(arena.domain(without), 1 << 20)
        os.write(4, json.dumps(layers).encode() + b"\n")
        with open(3, "rb") as reader:
            for line in reader:
                signal.alarm(_SECONDS)
                source, names["victim"], names["victim_fd"] = json.loads(line)
                os.write(4, json.dumps(_outcome(source, dict(names))).encode() + b"\n")
    except BaseException as error:
        os.write(2, f"the attacker failed: {error!r}\n".encode())
    os._exit(0)


def _outcome(source: str, names: dict[str, Any]) -> str | None:
    try:
        exec(source, names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        os.chdir("/")
        names.clear()
    return None


def _drop_to(user: int) -> None:
    if user != os.geteuid():
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        _libc.prctl(4, 1, 0, 0, 0)  # readable again, as any program of that user


def _state(path: Path) -> tuple[object, ...]:
    """Of a directory neither size nor times: they change with what is in it."""
    found = os.lstat(path)
    kind = found.st_mode, found.st_uid, found.st_gid
    if stat.S_ISDIR(found.st_mode):
        return kind
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else b""
    return *kind, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, content


def _process(pid: int) -> object:
    with open(f"/proc/{pid}/stat") as file:
        state = file.read().rpartition(")")[2].split()[0]
    if state == "Z":
        return None
    found = os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid), os.sched_getscheduler(pid)
    return found, Path(f"/proc/{pid}/limits").read_text()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _call(name: str, *arguments: int | bytes | None) -> int:
    number = (X86_64 if _IS_X86 else AARCH64).get(name)
    if number is None:
        number = _NUMBERS[name][0 if _IS_X86 else 1]
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *passed))


def _write_memory(victim: int) -> None:
    """Of this program's memory, which is as in the victim."""
    held = ctypes.create_string_buffer(1)
    here = struct.pack("QQ", ctypes.addressof(held), 1)
    with open("/proc/self/maps") as maps:
        place = next(int(line.partition("-")[0], 16) for line in maps if " rw-p " in line)
    _call("process_vm_readv", victim, here, 1, struct.pack("QQ", place, 1), 1, 0)
    _call("process_vm_writev", victim, here, 1, struct.pack("QQ", place, 1), 1, 0)


def _linked_by_descriptor(scratch: str, target: str) -> None:
    descriptor = os.open(scratch, os.O_TMPFILE | os.O_RDWR)
    _checked(_libc.linkat(-100, f"/proc/self/fd/{descriptor}".encode(), -100, target.encode(), _FOLLOW))


def _in_directory(path: str) -> None:
    os.fchdir(os.open(path, os.O_RDONLY))
    Path("new").write_text("x")


def _kernel_log() -> None:
    _checked(_libc.klogctl(3, ctypes.create_string_buffer(16), 16))


def _refused() -> None:
    raise PermissionError("it is another")


def _nothing(*_: object) -> None:
    pass


def _end(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([descriptor], [], [])


def _run(command: str) -> None:
    subprocess.run(["/bin/sh", "-c", command], check=True, stderr=subprocess.DEVNULL)


def _in_fork(act: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    if status := os.waitpid(pid, 0)[1]:
        raise PermissionError(f"the forked process ended with {status}")


def _forked_by(name: str, *arguments: int | bytes) -> None:
    pid = _call(name, *arguments)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _in_thread(act: Callable[[], object]) -> None:
    errors: list[Exception] = []

    def guarded() -> None:
        try:
            act()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def _in_memory(program: str, *arguments: str) -> None:
    with open(program, "rb") as file:
        descriptor = os.memfd_create("program")
        os.write(descriptor, file.read())
    subprocess.run(
        [f"/proc/self/fd/{descriptor}", *arguments],
        executable=f"/proc/self/fd/{descriptor}",
        pass_fds=(descriptor,),
        check=True,
        stderr=subprocess.DEVNULL,
    )


def _rewrite(path: str) -> None:
    with open(path) as file:
        content = file.read()
    with open(path, "w") as file:
        file.write(content)


def _interrupt_80() -> None:
    """getpid of 32 bits, by the instruction of its time."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    if not _IS_X86 or function() != os.getpid():
        _refused()


def _mounted() -> None:
    _checked(_libc.unshare(0x00020000))
    _checked(_libc.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None))
    _checked(_libc.mount(b"none", b"/dev", b"tmpfs", 0, b""))


def _ended_by_a_pipe(pid: int) -> None:
    """The kernel sends a signal of one's choice to whoever is said to own a descriptor."""
    os.close(os.pidfd_open(pid))
    reader, writer = os.pipe()
    fcntl.fcntl(reader, _SET_SIGNAL, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writer, b"x")
    if not _is_killed(pid):
        _refused()  # the kernel leaves it out without an error


def _is_killed(pid: int) -> bool:
    """Whether it ends, or will. A signal is pending when the call that sends it returns; a killed process keeps it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in status.splitlines())}
    return fields["State"][0] in "ZX" or bool(int(fields["ShdPnd"], 16) >> (signal.SIGKILL - 1) & 1)


def _typed(terminal: str) -> None:
    """Puts a key into a terminal, as if it had been typed there."""
    os.setsid()
    _checked(_libc.ioctl(os.open(terminal, os.O_RDONLY), 0x5412, b"x"))


def _joined(namespace: str) -> None:
    _checked(_libc.setns(os.open(namespace, os.O_RDONLY), 0x00020000))


def _posix_queue(name: str) -> None:
    _call("mq_open", name.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
    _call("mq_unlink", name.encode())


def _capable(path: str) -> None:
    Path(path).touch()
    os.setxattr(path, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 12, 0, 0, 0))


def _x32() -> None:
    """getpid by the calls for pointers of 32 bits."""
    if not _IS_X86 or _checked(_libc.syscall(ctypes.c_long(0x40000000 | 39))) != os.getpid():
        _refused()


def _raise_limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def _tools(arena: Arena) -> dict[str, Any]:
    """The functions that the lines of an attack find."""
    paths = (f"{arena.scratch}/fresh-{number}" for number in count())
    latest = [""]

    def fresh() -> str:
        latest[0] = next(paths)
        return latest[0]

    def exchange(one: str, other: str) -> None:
        _call("renameat2", -100, one.encode(), -100, other.encode(), 2)

    def read_memory(victim: int) -> None:
        with open("/proc/self/maps") as maps:
            address = int(maps.readline().partition("-")[0], 16)  # as in the victim, which is a fork, too
        into = ctypes.create_string_buffer(1)
        here = struct.pack("QQ", ctypes.addressof(into), 1)
        _call("process_vm_readv", victim, here, 1, struct.pack("QQ", address, 1), 1, 0)

    def by_handle(path: str) -> None:
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
        mount = ctypes.create_string_buffer(4)
        _checked(_libc.name_to_handle_at(-100, path.encode(), handle, mount, 0))
        place = os.open(arena.scratch, os.O_RDONLY)
        os.write(_call("open_by_handle_at", place, handle.raw, os.O_WRONLY), b"x")

    def set_user_id() -> None:
        done = subprocess.run([f"{arena.out}/id", "-u"], capture_output=True, check=True)
        if done.stdout != b"0\n":
            _refused()

    return {
        "call": _call,
        "by_handle": by_handle,
        "capable": _capable,
        "checked": _checked,
        "end": _end,
        "ended_by_a_pipe": _ended_by_a_pipe,
        "exchange": exchange,
        "fcntl": fcntl,
        "forked_by": _forked_by,
        "fresh": fresh,
        "in_directory": _in_directory,
        "in_fork": _in_fork,
        "in_memory": _in_memory,
        "in_thread": _in_thread,
        "interrupt_80": _interrupt_80,
        "joined": _joined,
        "latest": lambda: latest[0],
        "kernel_log": _kernel_log,
        "libc": _libc,
        "linked_by_descriptor": _linked_by_descriptor,
        "mounted": _mounted,
        "os": os,
        "pathlib": pathlib,
        "posix_queue": lambda: _posix_queue(arena.base.name),
        "py_compile": py_compile,
        "raise_limit": _raise_limit,
        "read_memory": read_memory,
        "refused": _refused,
        "resource": resource,
        "rewrite": _rewrite,
        "run": _run,
        "set_user_id": set_user_id,
        "shutil": shutil,
        "signal": signal,
        "socket": socket,
        "sqlite3": sqlite3,
        "stat": stat,
        "struct": struct,
        "subprocess": subprocess,
        "tempfile": tempfile,
        "typed": _typed,
        "write_memory": _write_memory,
        "x32": _x32,
        "zipfile": zipfile,
    }


assert encodings.idna
