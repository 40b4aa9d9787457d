"""The interface that scenarios drive a program through, and how its end is recorded.

A peer has its own clock. That of a process is the real one; that of a program in memory moves only while somebody
waits, so that a scenario of thirty seconds takes no time and comes out the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Stream = Literal["server", "server-log"]
Rung = Literal["by itself", "close stdin", "SIGTERM", "SIGKILL"]
"""What ended a program: the steps of the ladder, in their order."""


@dataclass(frozen=True, slots=True)
class Received:
    """A chunk that the program wrote. No bytes: it closed the stream."""

    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended. `code` is its exit status, negative for a signal; `left` counts processes it left behind."""

    rung: Rung
    code: int
    left: int = 0


class PeerGoneError(Exception):
    """Raised by `write` where the program reads no more: it has ended, or closed its standard input."""


class PeerStartError(Exception):
    """Raised where the program cannot be started. Its text is for the user."""


class Peer(Protocol):
    """A program that was started, until `end`. Times are in seconds of the peer's clock, from its start."""

    def now(self) -> float: ...

    def write(self, data: bytes, until: float) -> None:
        """Gives it bytes on standard input. Raises PeerGoneError; TimeoutError where it does not take them in time."""
        ...

    def close_input(self) -> None:
        """Ends its standard input; twice is once."""
        ...

    def read(self, until: float) -> Received | None:
        """The next chunk of either stream; None where there is none by then. Both closed: None at once."""
        ...

    def has_closed(self) -> bool:
        """Whether standard output is closed, and all that it held was read."""
        ...

    def end(self) -> Ending:
        """Ends it by the ladder, with everything that it started; twice is once."""
        ...

    def kill(self) -> None:
        """Ends it at once, from any thread; whoever waits for it sees its streams closed."""
        ...
