"""The zygote's side of outlines: sockets on which outlines are asked for, and the parser process of each.

A process is forked when a socket has something to read that nobody serves, as `inetd` did: who asks knows of no
process, and a socket that is not used has none. It ends by itself, or by a text; then the asker is told, and the next
request starts another. Must not read what is asked. Used by `zygote`.
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from typing import NoReturn

from ....files.outline.model import LOST
from .forked import fork


class Parsers:
    """The sockets, each with its process while there is one."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._idle: dict[int, socket.socket] = {}
        self._served: dict[int, socket.socket] = {}

    @property
    def pids(self) -> set[int]:
        """The processes that are there."""
        return set(self._served)

    def ask(self) -> socket.socket:
        """A socket on which outlines can be asked for. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.add(ours)
        return theirs

    def add(self, connection: socket.socket) -> None:
        """From now on what is asked on this socket is served."""
        connection.setblocking(False)
        self._idle[connection.fileno()] = connection
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def has(self, descriptor: int) -> bool:
        return descriptor in self._idle

    def serve(self, descriptor: int) -> None:
        """There is something to read on a socket that has no process: a request, or its end."""
        connection = self._idle.pop(descriptor)
        self._poll.unregister(descriptor)
        with suppress(OSError):
            if connection.recv(1, socket.MSG_PEEK):
                self._fork(connection)
                return
        connection.close()

    def ended(self, pid: int, status: int) -> None:
        """A process was reaped; of another's this does nothing."""
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
    from .outlining import become_parser  # what it needs, the zygote does without until it has nothing else to do

    become_parser(connection, parent)
