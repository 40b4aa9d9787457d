"""Loads modules as on a system that is not Linux, so that their other implementation runs on Linux.

Modules of the engine ask `sys.platform` when they are loaded, and only `ASKS` do so (`test_names`). `loaded`
executes one a second time under another name, while `sys.platform` is `darwin` and the modules of the standard library
that it imports are copies without the names of Linux. What macOS has instead is played by stand-ins.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from tests.support import kernel_queues, libproc

ASKS: Final = (
    "engine.files.pins",
    *(
        f"engine.runtime.system.{name}"
        for name in [
            "attributes",
            "descriptors",
            "desktop",
            "kernel",
            "names",
            "new_names",
            "own_process",
            "peers",
            "passing",
            "peers",
            "process_table",
            "processes",
            "quiet_fork",
            "support",
            "waiting",
        ]
    ),
)
"""The modules that ask for the system."""
LINUX_ONLY: Final = {
    "fcntl": ("DN_*", "F_*LEASE", "F_*PIPE_SZ", "F_*SIG", "F_ADD_SEALS", "F_GET_SEALS", "F_NOTIFY", "F_SEAL_*"),
    "os": (
        *(
            "EFD_*",
            "GRND_*",
            "MFD_*",
            "O_DIRECT",
            "O_LARGEFILE",
            "O_NOATIME",
            "O_PATH",
            "O_RSYNC",
            "O_TMPFILE",
            "P_PID*",
        ),
        *("POSIX_FADV_*", "RWF_*", "SCHED_*", "SPLICE_*", "XATTR_*", "copy_file_range", "eventfd*", "fdatasync"),
        *("getrandom", "getres[gu]id", "*xattr", "memfd_create", "pidfd_open", "pipe2", "posix_fadvise"),
        *("posix_fallocate", "sched_[grs]*", "sched_param", "setres[gu]id", "splice", "waitid*"),
    ),
    "resource": ("RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_RT*", "RLIMIT_SIGPENDING", "prlimit"),
    "select": ("epoll", "EPOLL*"),
    "signal": (
        "SIGCLD",
        "SIGPOLL",
        "SIGPWR",
        "SIGRT*",
        "SIGSTKFLT",
        "pidfd_send_signal",
        "sigtimedwait",
        "sigwaitinfo",
    ),
    "socket": (
        *("AF_ALG", "AF_CAN", "AF_NETLINK", "AF_PACKET", "AF_TIPC", "AF_VSOCK", "MSG_CMSG_CLOEXEC", "SCM_CREDENTIALS"),
        *("SOCK_CLOEXEC", "SOCK_NONBLOCK", "SOCK_SEQPACKET", "SO_PASSCRED", "SO_PEERCRED"),
    ),
}
"""Modules with patterns of the names that macOS lacks, or refuses for what we could use them for."""
C_OF_LINUX: Final = frozenset((
    *("accept4", "clone", "close_range", "copy_file_range", "epoll_create1", "eventfd", "fallocate", "fstatfs"),
    *("getrandom", "gettid", "inotify_init1", "klogctl", "malloc_trim", "memfd_create", "mount", "name_to_handle_at"),
    *("pidfd_open", "pidfd_send_signal", "pipe2", "posix_fadvise", "prctl", "prlimit", "process_vm_readv", "ptrace"),
    *("renameat2", "sched_setaffinity", "sched_setattr", "sched_setscheduler", "seccomp", "setns", "signalfd"),
    *("sigtimedwait", "splice", "statfs", "statx", "syscall", "sysinfo", "timerfd_create", "umount2", "unshare"),
    *("vmsplice", "waitid"),
))  # fmt: skip
"""Functions of C libraries that macOS lacks, or that take another structure there."""
_RENAME_EXCL, _RENAME_NOREPLACE = 4, 1
_MODULES: Final[dict[str, ModuleType]] = {
    "fcntl": fcntl,
    "os": os,
    "resource": resource,
    "select": select,
    "signal": signal,
    "socket": socket,
}
_CDLL: Final = ctypes.CDLL
# Bound here, because statements may replace them.
_encode, _readlink, _chmod, _set_times = os.fsencode, os.readlink, os.chmod, os.utime
F_GETPATH: Final = 50


def _fcntl(descriptor: int, command: int, argument: Any = 0) -> Any:
    """`fcntl.fcntl` with F_GETPATH, which returns the path of a descriptor and NUL characters."""
    if command != F_GETPATH:
        return fcntl.fcntl(descriptor, command, argument)
    return _encode(_readlink(f"/proc/self/fd/{descriptor}")).ljust(len(argument), b"\0")


def _fchmod(descriptor: int, mode: int) -> None:
    """`os.fchmod`, which on Linux refuses descriptors that were opened with O_PATH."""
    _chmod(f"/proc/self/fd/{descriptor}", mode)


def _lstat(path: str) -> SimpleNamespace:
    """`os.lstat`, of which the engine reads the time of birth here."""
    buffer = ctypes.create_string_buffer(256)
    if _CDLL(None).statx(-100, _encode(path), 0x100, 0x800, buffer) != 0:
        raise FileNotFoundError(path)
    seconds, nanoseconds = struct.unpack_from("qI", buffer, 80)
    return SimpleNamespace(st_birthtime=seconds + nanoseconds / 10**9)


def _utime(path: int, **times: Any) -> None:
    _set_times(f"/proc/self/fd/{path}", **times)


_GIVEN: Final[dict[str, dict[str, object]]] = {
    "fcntl": {"F_GETPATH": F_GETPATH, "fcntl": _fcntl},
    # O_EVTONLY is like O_PATH: it needs no right to read. O_NOFOLLOW_ANY refuses links anywhere in the path.
    "os": {
        "O_EVTONLY": os.O_PATH,
        "O_NOFOLLOW_ANY": os.O_NOFOLLOW,
        "fchmod": _fchmod,
        "utime": _utime,
        "lstat": _lstat,
    },
    "select": dict(kernel_queues.NAMES),
}
"""What macOS has instead, by its documentation."""


def is_linux_only(module: str, name: str) -> bool:
    """Whether macOS lacks this name of a module of the standard library."""
    return any(fnmatchcase(name, each) for each in LINUX_ONLY.get(module, ()))


@contextmanager
def as_elsewhere() -> Generator[None]:
    """Let a module that is executed now find another system."""
    with ExitStack() as undo:
        for module, name, value in ((sys, "platform", "darwin"), (ctypes, "CDLL", _library)):
            undo.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        for each, module in _MODULES.items():
            undo.callback(sys.modules.__setitem__, each, module)
            sys.modules[each] = _without(module)
        yield


def loaded(name: str) -> ModuleType:
    """The module as another system loads it. Call it with names of modules that ask `sys.platform`."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with as_elsewhere():
        spec.loader.exec_module(module)
    return module


def _library(name: str | None, **options: Any) -> Any:
    return libproc.Libproc() if name == libproc.NAME else _CLibrary(_CDLL(name, **options))


class _CLibrary:
    """macOS's C library: Linux's without what it alone has, and with what macOS has instead."""

    def __init__(self, linux: ctypes.CDLL) -> None:
        self._linux = linux

    def __getattr__(self, name: str) -> Any:
        if name in C_OF_LINUX:
            raise AttributeError(name)
        return getattr(self._linux, name)

    def renameatx_np(self, directory: int, source: bytes, other: int, target: bytes, flag: int) -> int:
        return self._linux.renameat2(directory, source, other, target, {_RENAME_EXCL: _RENAME_NOREPLACE}[flag])


def _without(module: ModuleType) -> ModuleType:
    """A copy of the module without the names of Linux."""
    copy, name = ModuleType(module.__name__), module.__name__
    vars(copy).update({each: value for each, value in vars(module).items() if not is_linux_only(name, each)})
    vars(copy).update(_GIVEN.get(name, {}))
    return copy


IMPLEMENTATIONS: Final = ("linux", "other")
"""The parameters of a suite that both implementations pass."""


def implementation(name: str, which: str) -> ModuleType:
    """The module as this system loads it, or as another does."""
    return importlib.import_module(name) if which == "linux" else loaded(name)
