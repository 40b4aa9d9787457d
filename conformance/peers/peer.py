"""The interface that scenarios drive a program through, and how its end is recorded.

A peer has its own clock. That of a process is the real one; that of a program in memory moves only while somebody
waits, so that a scenario of thirty seconds takes no time and comes out the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

Side = Literal["client", "server"]
"""The two programs of a connection: a client, and the server that it starts (an agent is one)."""
Stream = Literal["client", "client-log", "server", "server-log"]
"""Messages of the judged program, and everything else that it writes."""
Rung = Literal["by itself", "close stdin", "agent exits", "SIGTERM", "SIGKILL"]
"""What ended a program: the steps of the ladder, in their order. A client's second step is that its agent exits."""


@dataclass(frozen=True, slots=True)
class Received:
    """A chunk that the program wrote. No bytes: it closed the stream."""

    stream: Stream
    data: bytes
    omitted: int = 0
    """Bytes of a log ahead of these that were let go, because nobody took them in time."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended. `code` is its exit status, negative for a signal; `left` counts processes it left behind."""

    rung: Rung
    code: int
    left: int = 0


CLOSING: Final[dict[Side, Rung]] = {"server": "close stdin", "client": "agent exits"}
"""The first step of the ladder: the program's messages end."""


class PeerGoneError(Exception):
    """Raised by `write` where the program reads no more: it has ended, or closed its standard input."""


class PeerFloodError(Exception):
    """Raised by `write` where the program writes without end instead of reading."""


class PeerStartError(Exception):
    """Raised where the program cannot be started. Its text is for the user."""


class Peer(Protocol):
    """A program that was started, until `end`. Times are in seconds of the peer's clock, from its start."""

    side: Side
    """Which of the two it is; the scenario acts as the other."""

    def now(self) -> float: ...

    def write(self, data: bytes, until: float) -> None:
        """Sends it bytes. Raises PeerGoneError; PeerFloodError; TimeoutError where it does not take them in time."""
        ...

    def close_input(self) -> None:
        """Ends what it reads; twice is once."""
        ...

    def read(self, until: float) -> Received | None:
        """The next chunk of either stream; None where there is none by then. Both closed: None at once."""
        ...

    def has_closed(self) -> bool:
        """Whether it has ended what it writes, and all of that was read."""
        ...

    def interrupt(self) -> None:
        """Does what a user does who presses Ctrl-C."""
        ...

    def end(self) -> Ending:
        """Ends it by the ladder, with everything that it started; twice is once."""
        ...

    def kill(self) -> None:
        """Ends it at once, from any thread; whoever waits for it sees its streams closed."""
        ...
