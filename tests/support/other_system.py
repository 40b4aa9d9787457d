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
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Final

from tests.support import kernel_queues, libproc

ASKS: Final = (
    "engine.files.pins",
    *(
        f"engine.runtime.system.{name}"
        for name in [
            "attributes",
            "descriptors",
            "kernel",
            "own_process",
            "passing",
            "process_table",
            "processes",
            "quiet_fork",
            "waiting",
        ]
    ),
)
"""The modules that ask for the system."""
LINUX_ONLY: Final = {
    "fcntl": ("F_SETPIPE_SZ", "F_GETPIPE_SZ"),
    "os": (
        *("eventfd", "eventfd_write", "getxattr", "listxattr", "memfd_create", "pidfd_open", "pipe2", "setxattr"),
        *("sched_getaffinity", "sched_getscheduler", "sched_setscheduler", "waitid"),
        *("MFD_", "O_PATH", "O_TMPFILE", "SCHED_", "P_PID"),
    ),
    "resource": ("RLIMIT_RTTIME",),
    "select": ("epoll", "EPOLL"),
    "signal": ("pidfd_send_signal", "sigtimedwait"),
    "socket": ("AF_NETLINK", "SO_PASSCRED", "SCM_CREDENTIALS", "SOCK_SEQPACKET"),
}
"""Modules with the names that macOS lacks; those in capitals are beginnings of names."""
_MODULES: Final[dict[str, ModuleType]] = {
    "fcntl": fcntl,
    "os": os,
    "resource": resource,
    "select": select,
    "signal": signal,
    "socket": socket,
}
_CDLL: Final = ctypes.CDLL
F_GETPATH: Final = 50


def _fcntl(descriptor: int, command: int, argument: Any = 0) -> Any:
    """`fcntl.fcntl` with F_GETPATH, which returns the path of a descriptor and NUL characters."""
    if command != F_GETPATH:
        return fcntl.fcntl(descriptor, command, argument)
    return os.fsencode(os.readlink(f"/proc/self/fd/{descriptor}")).ljust(len(argument), b"\0")


def _fchmod(descriptor: int, mode: int) -> None:
    """`os.fchmod`, which on Linux refuses descriptors that were opened with O_PATH."""
    os.chmod(f"/proc/self/fd/{descriptor}", mode)


def _utime(path: int, **times: Any) -> None:
    os.utime(f"/proc/self/fd/{path}", **times)


_GIVEN: Final[dict[str, dict[str, object]]] = {
    "fcntl": {"F_GETPATH": F_GETPATH, "fcntl": _fcntl},
    # O_EVTONLY is like O_PATH: it needs no right to read. O_NOFOLLOW_ANY refuses links anywhere in the path.
    "os": {"O_EVTONLY": os.O_PATH, "O_NOFOLLOW_ANY": os.O_NOFOLLOW, "fchmod": _fchmod, "utime": _utime},
    "select": dict(kernel_queues.NAMES),
}
"""What macOS has instead, by its documentation."""


def is_linux_only(module: str, name: str) -> bool:
    """Whether macOS lacks this name of a module of the standard library."""
    return any(name.startswith(each) if each.isupper() else name == each for each in LINUX_ONLY.get(module, ()))


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
    return libproc.Libproc() if name == libproc.NAME else _CDLL(name, **options)


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
