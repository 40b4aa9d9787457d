"""From a fork of the zygote to a worker: descriptors, limits, environment, import path, then the request loop.

Everything here happens before anything of the user's runs; whatever fails is reported on the worker socket as
`Failed`. Must not know what requests there are. Called by `forked` in the forked child.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import resource
import signal
import socket
import sys
import sysconfig
from types import ModuleType
from typing import Final, NoReturn

from ....core.domain import Layer
from ...sandbox.entering import enter
from ..framing import frame
from ..processes import own_process
from ..processes.descriptors import close_all_but
from ..processes.limits import set_limits
from ..processes.privileges import give_up_reading_others
from ..processes.system import become_subreaper, die_with_parent
from ..protocol import Failed, Fork
from ..statements import streams
from . import main, site_packages

_RESERVED: Final = 8
"""Descriptors at the top of the limit that are ours, where a statement closing a few low ones does not hit them."""
_EXIT_SETUP: Final = 70


def become_worker(
    request: Fork, parent: int, worker_socket: int, stdout: int, stderr: int, handover: int, outlines: int
) -> NoReturn:
    """Turns this forked process into a worker that leaves by `os._exit` only."""
    channel = None
    own_process.take_place()
    try:
        os.setsid()
        become_subreaper()
        if not die_with_parent(signal.SIGKILL, parent):
            os._exit(_EXIT_SETUP)
        set_limits(request.data_bytes, request.open_files)
        spares, (asks, copies, channel) = _place(stdout, stderr, outlines, handover, worker_socket)
        # Ahead of the import path, because a project's .pth files may run code.
        layers = _confine(request)
        gc.enable()
        os.chdir(request.cwd)
        _set_environment(request.variables)
        namespace = _main_module()
        _set_path(request)
        main.serve(channel, spares, asks, copies, namespace, request, layers)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            reason = f"{type(error).__name__}: {error}"
            sender = channel or socket.socket(fileno=worker_socket)
            sender.sendall(frame(Failed(reason)))
        os._exit(_EXIT_SETUP)


def _confine(request: Fork) -> tuple[Layer, ...]:
    if request.domain is not None:
        return enter(request.domain, request.data_bytes)
    give_up_reading_others(domain=not request.allow_sudo)
    return ()


def _place(stdout: int, stderr: int, *sockets: int) -> tuple[tuple[int, int], list[socket.socket]]:
    """Puts the pipes on 1 and 2, /dev/null on 0, ours at the top of the limit, and closes all others."""
    floor = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED
    placed = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, floor) for each in sockets]
    spares = (
        fcntl.fcntl(stdout, fcntl.F_DUPFD_CLOEXEC, floor),
        fcntl.fcntl(stderr, fcntl.F_DUPFD_CLOEXEC, floor),
    )
    streams.replace(spares)
    close_all_but(*spares, *placed)
    return spares, [socket.socket(fileno=each) for each in placed]


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)
    os.environ["PYTHONHASHSEED"] = "0"


def _main_module() -> dict[str, object]:
    """The module `__main__` whose dict is the namespace, so that classes made in statements can be pickled."""
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = __import__("builtins")
    sys.modules["__main__"] = module
    sys.argv = [""]
    return module.__dict__


def _set_path(request: Fork) -> None:
    """The order of a script in the project: its folder, the standard library, its packages; ours come last.

    The project's .pth files count, which is how it is installed in its own environment.
    """
    paths = sysconfig.get_paths()
    roots = (paths["stdlib"], paths["platstdlib"])
    standard = [path for path in sys.path if path.endswith(".zip") or _is_standard(path, roots)]
    ours = [path for path in sys.path if path not in standard]
    sys.path[:] = [request.cwd, *standard]
    for path in request.import_paths:
        if os.path.isdir(path):
            site_packages.add(path, with_code=request.domain is not None)
    sys.path += [path for path in ours if path not in sys.path]


def _is_standard(path: str, roots: tuple[str, ...]) -> bool:
    return "site-packages" not in path and "dist-packages" not in path and path.startswith(roots)
