"""A proxy between a client and a PostgreSQL server that breaks a connection at a chosen message.

It forwards whole messages of the protocol, so a test can break a connection at each message of an operation in turn.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal

Direction = Literal["to server", "to client"]
_PORT = ".s.PGSQL.5432"
_LATE_SECONDS = 0.1


class CuttingProxy:
    """Listens in `directory`, and forwards to the server whose socket is in `server`."""

    def __init__(self, directory: Path, server: Path) -> None:
        self.directory = directory
        self._server = str(server / _PORT)
        self._mutex = threading.Lock()
        self._direction: Direction | None = None
        self._left = 0
        self._is_late = False
        self.cuts = 0
        """How many connections were broken."""
        self.delivered = threading.Event()
        """Set while the server has everything that is to arrive late."""
        self.delivered.set()
        self.is_down = False
        """Whether new connections are refused."""
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(directory / _PORT))
        self._listening.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def arm(self, direction: Direction, message: int, *, is_late: bool = False) -> None:
        """Break the connection at the n-th message from now on, which is lost; none for 0.

        `is_late`: the client notices at once, but the server gets everything that the client sent, and only then learns
        of it. So it may execute a COMMIT of which the client knows nothing.
        """
        with self._mutex:
            self._direction, self._left, self._is_late = direction, message, is_late

    def cut_all(self) -> None:
        """Break every connection."""
        with self._mutex:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                _shut(end)

    def close(self) -> None:
        _shut(self._listening)
        self.cut_all()
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.is_down:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                client.close()
                continue
            thread = threading.Thread(target=self._serve, args=(client, server), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        pair = (client, server)
        with client, server:
            with self._mutex:
                self._pairs.add(pair)
            back = threading.Thread(target=self._forward, args=(server, client, "to client"), daemon=True)
            back.start()
            self._forward(client, server, "to server")
            back.join()
            with self._mutex:
                self._pairs.discard(pair)

    def _forward(self, source: socket.socket, target: socket.socket, direction: Direction) -> None:
        waiting, begun = b"", direction == "to client"
        try:
            while data := source.recv(1 << 16):
                waiting += data
                while (length := _length(waiting, begun)) is not None and len(waiting) >= length:
                    message, waiting, begun = waiting[:length], waiting[length:], True
                    if self._is_cut(direction):
                        self._cut(source, target, direction, message + waiting)
                        return
                    target.sendall(message)
        except OSError:
            pass
        finally:
            _shut(source)
            _shut(target)

    def _is_cut(self, direction: Direction) -> bool:
        with self._mutex:
            if self._direction != direction or not self._left:
                return False
            self._left -= 1
            if self._left:
                return False
            self._direction = None
            self.cuts += 1
            return True

    def _cut(self, source: socket.socket, target: socket.socket, direction: Direction, rest: bytes) -> None:
        if not self._is_late:
            return
        self.delivered.clear()
        client, server = (source, target) if direction == "to server" else (target, source)
        if direction == "to server":
            client.setblocking(False)
            try:
                while data := client.recv(1 << 16):
                    rest += data
            except BlockingIOError:
                pass
            _shut(client)
            threading.Event().wait(_LATE_SECONDS)  # so that the client has connected again when the rest arrives
            server.sendall(rest)
            threading.Event().wait(_LATE_SECONDS)
        else:
            _shut(client)
            threading.Event().wait(_LATE_SECONDS)
        self.delivered.set()


def _length(data: bytes, begun: bool) -> int | None:
    """The length of the first message; the client's first one has no type."""
    start = 1 if begun else 0
    if len(data) < start + 4:
        return None
    return start + struct.unpack_from("!I", data, start)[0]


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
