"""The client of the parser: asks for outlines over a socket, in workers and in the host.

It caches the latest outlines. If the parser dies, fails or does not answer, the outline is made here, from indentation.
A call blocks only its own thread; calls of several threads wait in a queue. Must not know how outlines are made.

A message that an interrupt left half-sent or unanswered does not affect later ones: see `files.outline`.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ....core.errors import EnvironmentUnavailableError
from ....files.outline.fallbacks import outline_by_indentation
from ....files.outline.languages import language_of
from ....files.outline.model import Outline, Tier
from ....files.outline.parser_messages import (
    CHUNK,
    NONE,
    Incoming,
    PictureRequest,
    Reply,
    Request,
    framed,
    reply_of,
)
from ...system import own_process

_KEPT: Final = 512
_KEPT_SYMBOLS: Final = 100_000
"""The size of the cache, in symbols and references."""
_SENT: Final = 16 << 20
"""The longest text that is sent to the parser."""
_PATIENCE: Final = 10.0
"""The time limit of one answer, in seconds. A busy machine needs several times as long as an idle one."""
_LONG_PATIENCE: Final = 60.0
"""The same if nobody waits."""

Connect = Callable[[], socket.socket | None]
"""Returns a socket to the parser; None if there is none. May raise OSError."""

_Key = tuple[str, str, Tier | None, bool, bool]
"""The arguments of `outline`, with the text's digest instead of the text."""


class Outlines:
    """See `Outliner`."""

    def __init__(self, connect: Connect, kept: int = _KEPT, kept_symbols: int = _KEPT_SYMBOLS) -> None:
        self._connect = connect
        self._most, self._most_symbols = kept, kept_symbols
        self._kept: OrderedDict[_Key, Outline] = OrderedDict()
        self._symbols = 0
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._number = 0
        # A process forked by a statement must not use this connection.
        os.register_at_fork(after_in_child=self._forget_connection)

    def outline(
        self,
        text: Callable[[], bytes],
        *,
        digest: str,
        path: str,
        tier: Tier | None = None,
        references: bool = False,
        patient: bool = False,
    ) -> Outline:
        """See `Outliner.outline`."""
        key = (digest, path, tier, references, patient)
        if found := self._look_up(key):
            return found
        outline = self._made(text(), path, tier, references=references, patient=patient)
        self._keep(key, outline)
        return outline

    def reopen(self, connect: Connect) -> None:
        """Start a new connection, in a process that has taken the worker's place."""
        self._drop()
        self._connect = connect

    def close(self) -> None:
        """Close the connection, which ends the parser. The object can be used again."""
        with self._lock:
            self._drop()

    # --- the cache ----------------------------------------------------------------------------------------------------

    def _look_up(self, key: _Key) -> Outline | None:
        with suppress(KeyError):
            found = self._kept[key]
            self._kept.move_to_end(key)
            return found
        return None

    def _keep(self, key: _Key, outline: Outline) -> None:
        self._kept[key] = outline
        self._symbols += _size(outline)
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._symbols > self._most_symbols):
            with suppress(KeyError):  # another thread may have emptied it meanwhile
                self._symbols -= _size(self._kept.popitem(last=False)[1])

    # --- requests -----------------------------------------------------------------------------------------------------

    def _made(self, text: bytes, path: str, tier: Tier | None, *, references: bool, patient: bool) -> Outline:
        by_grammar = tier in (None, "tree-sitter") and len(text) <= _SENT and language_of(path, text) is not None
        if by_grammar and (reply := self._asked(Request(path, text, references, patient))) and reply.outline:
            return reply.outline
        return outline_by_indentation(text)

    def _asked(self, request: Request) -> Reply | None:
        """Ask the parser; return None if there is none. The death of a parser is an answer too."""
        if not own_process.is_own():
            return None
        with self._lock:
            self._number += 1
            for _ in range(2):  # because a closed socket is replaced once
                connection = self._connected()
                if connection is None:
                    continue  # because a new zygote replaces one that has just ended
                try:
                    seconds = _LONG_PATIENCE if request.patient else _PATIENCE
                    body = exchange(connection, self._number, request, seconds)
                    return Reply(None, "its parser ended") if body is None else reply_of(body)
                except (TimeoutError, ValueError) as error:
                    return Reply(None, str(error))
                except OSError:
                    self._drop()
        return None

    def _connected(self) -> socket.socket | None:
        if self._connection is None:
            with suppress(OSError, EnvironmentUnavailableError):
                self._connection = self._connect()
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _forget_connection(self) -> None:
        # Nor may it wait for a lock that another thread held during the fork.
        self._lock = threading.Lock()
        self._drop()


def _size(outline: Outline) -> int:
    return 1 + len(outline.symbols) + len(outline.references)


def exchange(connection: socket.socket, number: int, request: Request | PictureRequest, seconds: float) -> bytes | None:
    """Send a request to a parser; return the body of its reply, or None if the process ended with the request.

    Raises TimeoutError, or ConnectionError if the other side is gone.
    """
    deadline = time.monotonic() + seconds
    connection.settimeout(seconds)
    connection.sendall(framed(number, request))
    incoming = Incoming()
    while True:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        data = connection.recv(CHUNK)
        if not data:
            raise ConnectionResetError("requests are no longer served")
        for answered, body in incoming.feed(data):
            if answered in (number, NONE):
                return None if answered == NONE else body
