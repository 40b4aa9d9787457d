"""The interface between scenarios and a program, and how its end is recorded.

A peer has its own clock. A process uses real time. A program in memory uses virtual time, which makes its scenarios
fast and deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

Side = Literal["client", "server"]
"""The two programs of a connection: the client, and the server it starts. An agent is a server."""
Stream = Literal["client", "client-log", "server", "server-log"]
"""The judged program's messages, and its other output."""
EndStep = Literal["by itself", "close stdin", "agent exits", "SIGTERM", "SIGKILL"]
"""What ended a program, in the order of escalation. The first step for a client is that its agent exits."""


@dataclass(frozen=True, slots=True)
class Received:
    """A chunk of the program's output. Empty data closes the stream."""

    stream: Stream
    data: bytes
    omitted: int = 0
    """Bytes of a log before this chunk that were dropped because nothing read them in time."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended. `code` is its exit status, negative for a signal; `left` counts leftover processes."""

    step: EndStep
    code: int
    left: int = 0


FIRST_END_STEP: Final[dict[Side, EndStep]] = {"server": "close stdin", "client": "agent exits"}
"""The first step: the program's messages end."""


class PeerGoneError(Exception):
    """Raised by `write` when the program has exited or closed its input."""


class PeerFloodError(Exception):
    """Raised by `write` when the program floods its output instead of reading."""


class PeerStartError(Exception):
    """Raised when the program cannot be started. The text is for the user."""


class Peer(Protocol):
    """A started program, until `end`. Times are in seconds on the peer's clock, from its start."""

    side: Side
    """Which side the program is. The scenario plays the other."""

    def now(self) -> float: ...

    def write(self, data: bytes, until: float) -> None:
        """Send bytes. Raises PeerGoneError, PeerFloodError, or TimeoutError if the program does not read in time."""
        ...

    def close_input(self) -> None:
        """Close the program's input. Idempotent."""
        ...

    def read(self, until: float) -> Received | None:
        """Return the next chunk of any stream, or None on timeout. Returns None at once when all are closed."""
        ...

    def has_closed(self) -> bool:
        """Whether the program closed its output and all of it was read."""
        ...

    def interrupt(self) -> None:
        """Interrupt the program as Ctrl-C would."""
        ...

    def end(self) -> Ending:
        """End the program step by step, with everything it started. Idempotent."""
        ...

    def kill(self) -> None:
        """Kill the program at once, from any thread. A waiting reader then sees closed streams."""
        ...
