"""From a fork of the zygote to a worker that serves: descriptors, limits, import path, and the request loop.

`become_worker` runs before any user code. It reports a failure on the worker's socket as `Failed`. `Surroundings` is
the process around the interpreter: it repairs streams before a statement, ends what a stopped one started, and makes
checkpoints.

`add` puts the project's packages on the import path, with their `.pth` files. A line of these that begins with `import`
is code, which Python runs at every start. In the sandbox that is harmless. In a worker with the user's rights, such
lines wait until an import fails without them. Then a statement wants the project's code, and an editable installation
may need such a line. Statements that compute or view files never run them. Must not know the requests. Called in the
forked child.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import resource
import signal
import site
import socket
import sys
import sysconfig
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Final, NoReturn

from ....core.domain import Layer
from ....core.tokens import counter
from ....files.safe_open import keep_out
from ...sandbox.entering import enter, give_up_reading_others, starter
from ...sandbox.seatbelt import LAYERS as STARTED_IN
from ...system import own_process
from ...system.descriptors import close_all_but, close_memory_file, memory_file
from ...system.own_process import (
    FORKS_MAY_DO_ANYTHING,
    become_subreaper,
    die_with_parent,
    flush_c_streams,
)
from ...system.process_table import children_of
from ...system.processes import ProcessHandle
from ..boot import CONTINUES
from ..channel import Channel
from ..framing import frame, received
from ..guarding.guard import OutsideGuard
from ..handles.outlines import Outlines
from ..interpreter import Interpreter, Request
from ..interpreter import serve as serve_requests
from ..interrupts import SignalInterrupts
from ..processes.ending import end_below
from ..processes.memory import set_limits
from ..protocol import CleanUp, Failed, Fork, FromWorker, Started
from ..statements import executor, output
from ..statements.executor import OwnPython

if TYPE_CHECKING:
    from .checkpoint import PendingCheckpoint

_CODE: Final = ("import ", "import\t")
_SUFFIX: Final = ".pth"
_RESERVED: Final = 8
"""The number of our descriptors, at the top of the limit, where statements that close low ones do not hit them."""
_EXIT_SETUP: Final = 70


def become_worker(parent: int, worker_socket: int, stdout: int, stderr: int, handover: int, outlines: int) -> NoReturn:
    """Turn this forked process into the worker that the host describes on its socket; leaves only by `os._exit`."""
    channel = None
    own_process.take_place()
    try:
        os.setsid()
        become_subreaper()
        if not die_with_parent(signal.SIGKILL, parent):
            os._exit(_EXIT_SETUP)
        request = received(worker_socket)
        assert isinstance(request, Fork)
        set_limits(request.data_bytes, request.open_files)
        before = () if request.domain is None else starter(request.domain)
        if before or not FORKS_MAY_DO_ANYTHING:
            _start_again(before, request, (worker_socket, stdout, stderr, handover, outlines))
        spares, (asks, copies, channel) = _place(stdout, stderr, outlines, handover, worker_socket)
        # Before the import path, because a project's .pth files may run code.
        layers = _confine(request)
        _begin(request, channel, spares, asks, copies, layers)
    except BaseException as error:
        _fail(error, channel, worker_socket)


def _begin(
    request: Fork,
    channel: socket.socket,
    spares: tuple[int, int],
    asks: socket.socket,
    copies: socket.socket,
    layers: tuple[Layer, ...],
) -> NoReturn:
    gc.enable()
    os.chdir(request.cwd)
    _set_environment(request.variables)
    namespace = _main_module()
    _set_path(request)
    serve(channel, spares, asks, copies, namespace, request, layers)


def _fail(error: BaseException, channel: socket.socket | None, worker_socket: int) -> NoReturn:
    with contextlib.suppress(BaseException):
        reason = f"{type(error).__name__}: {error}"
        sender = channel or socket.socket(fileno=worker_socket)
        sender.sendall(frame(Failed(reason)))
    os._exit(_EXIT_SETUP)


# --- workers that are a program of their own --------------------------------------------------------------------------
#
# On macOS a forked process must not use the system's frameworks (`FORKS_MAY_DO_ANYTHING`), and a sandbox applies to a
# program that `sandbox-exec` starts. So the forked process becomes a new interpreter, by way of that program if there
# is a sandbox. It keeps its id, parent, session, limits and descriptors. The request is in a file without a path.
# `boot` calls `continue_worker` then. This costs the time to load all modules again, and gives the worker no memory of
# the zygote.


def _start_again(before: Sequence[str], request: Fork, descriptors: tuple[int, ...]) -> NoReturn:
    """Become a program that continues this worker. Raises OSError."""
    given = memory_file("worker")
    with open(given, "wb", closefd=False) as file:
        file.write(" ".join(map(str, (int(bool(before)), *descriptors))).encode() + b"\n" + frame(request))
    os.lseek(given, 0, os.SEEK_SET)
    for descriptor in (given, *descriptors):
        os.set_inheritable(descriptor, True)
    interpreter = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
    arguments = (str(given), "0", "0", str(CONTINUES), sys.prefix, sys.exec_prefix, *sys.path)
    command = (*before, sys.executable, *interpreter[1:], *arguments)
    os.execve(command[0], command, os.environ)  # noqa: S606 -- which needs no shell


def continue_worker(given: int) -> NoReturn:
    """Continue in a program what `become_worker` began; leaves only by `os._exit`.

    `given` is the descriptor of the file with the request.
    """
    own_process.take_place()
    with open(given, "rb", closefd=False) as file:
        is_in_sandbox, worker_socket, stdout, stderr, handover, outlines = map(int, file.readline().split())
        os.lseek(given, file.tell(), os.SEEK_SET)
    channel = None
    try:
        request = received(given)
        close_memory_file(given)
        assert isinstance(request, Fork)
        spares, (asks, copies, channel) = _place(stdout, stderr, outlines, handover, worker_socket)
        layers = STARTED_IN if is_in_sandbox else _confine(request)
        _begin(request, channel, spares, asks, copies, layers)
    except BaseException as error:
        _fail(error, channel, worker_socket)


def _confine(request: Fork) -> tuple[Layer, ...]:
    if request.domain is not None:
        return enter(request.domain, request.data_bytes)
    give_up_reading_others(domain=not request.allow_sudo)
    return ()


def _place(stdout: int, stderr: int, *sockets: int) -> tuple[tuple[int, int], list[socket.socket]]:
    """Put the pipes on 1 and 2, /dev/null on 0, our sockets at the top of the limit, and close all others."""
    floor = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED
    placed = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, floor) for each in sockets]
    spares = (
        fcntl.fcntl(stdout, fcntl.F_DUPFD_CLOEXEC, floor),
        fcntl.fcntl(stderr, fcntl.F_DUPFD_CLOEXEC, floor),
    )
    output.replace(spares)
    close_all_but(0, 1, 2, *spares, *placed)
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
    """Set the path of a script in the project: its directory, the standard library, its packages; ours come last.

    The project's .pth files are used, because a project may be installed by them in its own environment.
    """
    paths = sysconfig.get_paths()
    roots = (paths["stdlib"], paths["platstdlib"])
    standard = [path for path in sys.path if path.endswith(".zip") or _is_standard(path, roots)]
    ours = [path for path in sys.path if path not in standard]
    sys.path[:] = [request.cwd, *standard]
    for path in request.import_paths:
        if os.path.isdir(path):
            add(path, with_code=request.domain is not None)
    sys.path += [path for path in ours if path not in sys.path]


def _is_standard(path: str, roots: tuple[str, ...]) -> bool:
    return "site-packages" not in path and "dist-packages" not in path and path.startswith(roots)


def serve(
    connection: socket.socket,
    spares: tuple[int, int],
    outlines: socket.socket,
    handover: socket.socket,
    namespace: dict[str, object],
    fork: Fork,
    layers: tuple[Layer, ...],
) -> NoReturn:
    """Run the worker's loop.

    Args:
        spares: copies of the stdout and stderr pipes, which statements do not find.
        outlines: the socket for outlines.
        handover: receives the descriptors for copies of this process.
        layers: enforce the domain of `fork`.
    """
    output.install()
    channel = Channel(connection)
    interrupts = SignalInterrupts(channel.stopping)
    # An interrupt may come before the first statement; Python's own handler would raise it anywhere.
    interrupts.install()
    for place in fork.kept_out if fork.confined else ():
        keep_out(place)
    # Before the code that takes Python's present functions as the original ones.
    guard = OutsideGuard(
        own_process=True, turn_off=executor.turn_off, scratch=fork.domain.scratch if fork.domain else ""
    )
    outliner = Outlines(partial(next, iter((outlines,)), None))
    surroundings = Surroundings(spares, channel, handover, outliner)
    interpreter = Interpreter(
        namespace,
        channel,
        interrupts,
        guard,
        count=counter(),
        cwd=fork.cwd,
        directories=fork.directories,
        confined=fork.confined,
        servers=fork.servers,
        domain=fork.domain,
        prepare=surroundings.prepare,
        flush=flush_c_streams,
        output=surroundings,
        python=OwnPython.of_this_process(),
        forks=True,
        outliner=outliner,
    )
    serve_requests(
        channel,
        surroundings.answering(interpreter.answer),
        interpreter.kept,
        partial(surroundings.snapshot, interpreter),
        layers,
    )


class Surroundings:
    """The process around the statements. `handover` receives the descriptors for its copies."""

    def __init__(
        self,
        spares: tuple[int, int],
        channel: Channel,
        handover: socket.socket,
        outlines: Outlines,
    ) -> None:
        self._spares = spares
        self._channel = channel
        self._handover = handover
        self._outlines = outlines
        self._pending: PendingCheckpoint | None = None
        """A checkpoint that may not have reported yet."""
        self._children: frozenset[int] | None = None
        """The processes at the start of the latest statement."""

    def prepare(self) -> None:
        """Prepare for a statement."""
        output.repair(self._spares)
        output.ensure()
        self._children = children_of("self")

    def begin(self) -> None:
        """Begin a replay; the host has read all earlier output."""

    @property
    def silent(self) -> bool:
        """Whether the replay has written nothing.

        The order of the two checks matters: the host announces a read first, so if the output is gone, the announcement
        has arrived.
        """
        return output.is_empty(self._spares) and self._channel.idle

    def answering(self, answer: Callable[[Request], FromWorker | None]) -> Callable[[Request], FromWorker | None]:
        """Wrap `answer` with the work on the process before and after it."""

        def answer_all(request: Request) -> FromWorker | None:
            self._wait_for_checkpoint()
            reply = answer(request)
            if isinstance(request, CleanUp):
                self._end_started()
            return reply

        return answer_all

    def snapshot(self, interpreter: Interpreter) -> Started | None:
        """Make a checkpoint. A worker that is restored from it starts here, and reports `Started`."""
        # Imported late, like the keeper, because the zygote loads it when it is idle.
        from .checkpoint import Restoring, take

        self._wait_for_checkpoint()
        restoring = take(self._handover, self._spares)
        if not isinstance(restoring, Restoring):
            self._pending = restoring
            return None
        own_process.take_place()
        become_subreaper()
        self._handover.close()
        self._handover = restoring.handover
        self._channel.reopen(restoring.channel)
        self._outlines.reopen(partial(next, iter((restoring.outlines,)), None))
        interpreter.take_place()
        return Started()

    def _wait_for_checkpoint(self) -> None:
        """Wait until a new checkpoint is out of reach of the next code."""
        coming, self._pending = self._pending, None
        if coming is not None:
            coming.wait()

    def _end_started(self) -> None:
        """End the processes that a stopped statement has started."""
        before, now = self._children, children_of("self")
        if before is None or now is None:
            return
        started = now - before
        if started:
            end_below(os.getpid(), lambda pid: pid not in before)
        for pid in started:
            # Without reaping them, because a user's object may wait for the exit status.
            with suppress(OSError), ProcessHandle(pid) as process:
                process.ended_within(None)


# --- the project's packages -------------------------------------------------------------------------------------------


def add(directory: str, *, with_code: bool) -> None:
    """Append the directory, and the paths in its `.pth` files; `with_code` runs their lines of code at once."""
    if with_code:
        site.addsitedir(directory)
        return
    code: list[str] = []
    _append(directory)
    for name in _names(directory):
        for line in _lines(os.path.join(directory, name)):
            if line.startswith(_CODE):
                code.append(line)
            elif line.strip() and not line.startswith("#"):
                _append(os.path.join(directory, line.rstrip()))
    if code:
        sys.meta_path.append(_Waiting(code))


def _names(directory: str) -> Sequence[str]:
    with suppress(OSError):
        return sorted(name for name in os.listdir(directory) if name.endswith(_SUFFIX) and not name.startswith("."))
    return ()


def _lines(path: str) -> Sequence[str]:
    with suppress(OSError, ValueError), open(path, encoding="utf-8-sig") as file:
        return file.read().splitlines()
    return ()


def _append(path: str) -> None:
    if os.path.isdir(path) and path not in sys.path:
        sys.path.append(path)


class _Waiting(MetaPathFinder):
    """Runs the lines of code at the first import that fails, and then retries it."""

    def __init__(self, code: list[str]) -> None:
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if not self._code or path is not None:
            return None
        code, self._code = self._code, []
        for line in code:
            try:
                exec(line)  # noqa: S102 -- as Python itself does
            except Exception as error:
                print(f"{line!r} in a .pth file of the project failed: {error!r}", file=sys.stderr)
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)
            if found is not None:
                return found
        return None
