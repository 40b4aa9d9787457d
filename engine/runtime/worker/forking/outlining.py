"""The parser process, which makes outlines, decodes pictures and may crash, and the zygote's side of it.

The zygote forks a parser when a request waits on a socket that no process serves, as `inetd` does (`Parsers`). So
askers know no process, and an unused socket has none. A host has a socket of its own for pictures, so a picture delays
no outline. The parser ends after a while without requests. Any text may end
it: the kernel kills it at its time limit, because C code of a grammar cannot be interrupted, and memory is limited too.
The asker learns of that and uses another tier (`handles.outlines`); the next request starts another parser. A text may
make a grammar's C code do anything. So the process has a sandbox of its own for every asker: it changes files in /dev
alone, has no network, and reads no other process, as far as the kernel supports that.

Imports tree-sitter and Pillow, which no other process does. Must not know what outlines and pictures are for.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from contextlib import suppress
from typing import Final, NoReturn

from ....core.domain import Domain
from ....files.outline.languages import language_of
from ....files.outline.parser_messages import (
    CHUNK,
    LOST,
    Decoded,
    Incoming,
    PictureRequest,
    Reply,
    Request,
    framed,
    request_of,
)
from ...sandbox.entering import enter, give_up_reading_others
from ...system.descriptors import open_descriptors
from ...system.own_process import die_with_parent
from ...system.waiting import READABLE, Poller
from ..processes.memory import set_limits
from .forked import fork

SECONDS: Final = 1.0
"""Processor time for one text; then the kernel kills the process."""
_SOFT_SECONDS: Final = 0.7
"""After this time a grammar is asked to stop."""
_PATIENT: Final = 10.0
"""Multiplies the time limits if nobody waits for the outline."""
_PICTURE_TIMES: Final = 5.0
"""The same for a picture."""
_IDLE_SECONDS: Final = 10.0
_DATA_BYTES: Final = 768 << 20
_OPEN_FILES: Final = 64
_EXIT_SETUP: Final = 70
_NOTHING: Final = Domain(scratch="", without=("mounts",))
"""The sandbox of parsers: no directory is writable. It does without the mount layer."""


def become_parser(connection: int, parent: int) -> NoReturn:
    """Turn this forked process into a parser, which leaves only by `os._exit`."""
    try:
        os.setsid()
        if not die_with_parent(signal.SIGKILL, parent):
            os._exit(_EXIT_SETUP)
        _keep_alone(connection)
        set_limits(_DATA_BYTES, _OPEN_FILES)
        give_up_reading_others(domain=True)  # even if the kernel is too old for the rest
        enter(_NOTHING, 0)
        gc.enable()
        _serve(socket.socket(fileno=connection))
    except BaseException:
        os._exit(_EXIT_SETUP)
    os._exit(0)


def _keep_alone(connection: int) -> None:
    """Close the zygote's descriptors, and discard output of C code."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    highest = max(open_descriptors(), default=0)
    os.closerange(3, connection)
    os.closerange(connection + 1, highest + 2)


def _serve(connection: socket.socket) -> None:
    """Answer requests until none comes for `_IDLE_SECONDS`, or the other side is gone."""
    connection.settimeout(_IDLE_SECONDS)
    incoming = Incoming()
    with suppress(OSError):
        while data := connection.recv(CHUNK):
            for number, body in incoming.feed(data):
                connection.sendall(framed(number, _reply(request_of(body))))


def _reply(request: Request | PictureRequest) -> Reply | Decoded:
    try:
        return _by_grammar(request) if isinstance(request, Request) else _decoded(request)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Reply(None, reason) if isinstance(request, Request) else Decoded(reason=reason)


def _decoded(request: PictureRequest) -> Decoded:
    from .decoding import decode  # loads Pillow, which the zygote must not load

    with _Bound(_PICTURE_TIMES):
        return decode(request.data, request.pixels)


class _Bound:
    """The time limit of this process for one request, `times` the usual one, enforced by the kernel."""

    def __init__(self, times: float) -> None:
        self._times = times

    def __enter__(self) -> _Bound:
        self._until = time.process_time() + _SOFT_SECONDS * self._times
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, SECONDS * self._times)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def is_near(self) -> bool:
        return time.process_time() > self._until


def _by_grammar(request: Request) -> Reply:
    from ....files.outline import grammars  # loads tree-sitter, which the zygote must not load

    language = language_of(request.path, request.text)
    if language is None:
        return Reply(None, "there is no grammar for this language")
    grammars.loaded(language.name)  # first, because loading must not count as time for the text
    with _Bound(_PATIENT if request.patient else 1.0) as bound:
        most = grammars.PATIENT_BYTES if request.patient else grammars.BYTES
        return Reply(
            grammars.outline_by_grammar(
                request.text, language, request.path, bound.is_near, references=request.references, most=most
            )
        )


# --- the zygote's side ------------------------------------------------------------------------------------------------


class Parsers:
    """The sockets for outlines, each with its process if there is one."""

    def __init__(self, poll: Poller) -> None:
        self._poll = poll
        self._idle: dict[int, socket.socket] = {}
        self._served: dict[int, socket.socket] = {}

    @property
    def pids(self) -> set[int]:
        """The process ids of the running parsers."""
        return set(self._served)

    def ask(self) -> socket.socket:
        """A new socket for outlines. Raises OSError."""
        ours, theirs = socket.socketpair()
        self.add(ours)
        return theirs

    def add(self, connection: socket.socket) -> None:
        """Serve requests on this socket from now on."""
        connection.setblocking(False)
        self._idle[connection.fileno()] = connection
        self._poll.register(connection.fileno(), READABLE)

    def has(self, descriptor: int) -> bool:
        return descriptor in self._idle

    def serve(self, descriptor: int) -> None:
        """Handle a readable socket without a process: a request, or its end."""
        connection = self._idle.pop(descriptor)
        self._poll.unregister(descriptor)
        with suppress(OSError):
            if connection.recv(1, socket.MSG_PEEK):
                self._fork(connection)
                return
        connection.close()

    def ended(self, pid: int, status: int) -> None:
        """Note that a parser was reaped; ignores other processes."""
        connection = self._served.pop(pid, None)
        if connection is None:
            return
        if status:
            with suppress(OSError):
                connection.send(LOST)
        self.add(connection)

    def _fork(self, connection: socket.socket) -> None:
        parent = os.getpid()
        try:
            pid = fork(lambda: _become_parser(connection.fileno(), parent))
        except OSError:
            connection.close()
            return
        self._served[pid] = connection


def _become_parser(connection: int, parent: int) -> NoReturn:
    become_parser(connection, parent)
