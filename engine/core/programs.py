"""Programs beside the statements: shell commands, and MCP servers on pipes."""

from __future__ import annotations

import codecs
from typing import Final, Protocol

from msgspec import Struct, field

from .domain import Domain
from .text import between


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A program to run beside the statements.

    Its arguments begin with its absolute path; `cwd` is absolute; `seconds` is how long it may take. `stdin` is what it
    reads there, and then the end of the file. With `merged` its stderr goes into its stdout, in order. `kept_bytes` of
    each stream are kept, at most, half of them from the beginning and half from the end. Once it has printed `stop_at`
    bytes to stdout it is ended, and what it printed beyond is dropped. With a `domain` the kernel holds it to that, or
    it is not started. Directories that are `distrusted`, and relative ones, are left out of its `PATH`.
    """

    argv: tuple[str, ...]
    cwd: str
    seconds: float
    kept_bytes: int
    merged: bool = True
    stop_at: int | None = None
    stdin: bytes = b""
    domain: Domain | None = None
    distrusted: tuple[str, ...] = ()


_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""


_CUT_BYTES: Final = 3
"""So many of them a character has at most."""


class CommandOutput(Struct, frozen=True, kw_only=True):
    """What a program printed: the beginning and the end, which together are the whole where `left_out` is 0."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def left_out(self) -> int:
        """Bytes between the two that were not kept."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def text(self) -> str:
        """What was printed, what is no UTF-8 as U+FFFD; between the ends a line counts the bytes that were not kept."""
        if not self.left_out:
            return (self.head + self.tail).decode("utf-8", "replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(self.head)
        # The cut may have gone through a character, of which each end has a part.
        tail = self.tail[:_CUT_BYTES].lstrip(_CONTINUATION) + self.tail[_CUT_BYTES:]
        lost = self.left_out + len(decoder.getstate()[0]) + len(self.tail) - len(tail)
        return head + between(lost, noun="byte") + tail.decode("utf-8", "replace")


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """How a program ended: with an exit `code`, by a `signal`, or by us.

    We end it where it `timed_out`, where it was `stopped` at `stop_at`, and for what `reason` says in words.
    """

    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    stopped: bool = False
    reason: str = ""
    stdout: CommandOutput = field(default_factory=CommandOutput)
    stderr: CommandOutput = field(default_factory=CommandOutput)
    seconds: float = 0.0


class ServerRequest(Struct, frozen=True, kw_only=True):
    """A program that is talked to for as long as it runs: its arguments, which begin with its absolute path, where it
    runs, and its whole environment."""

    argv: tuple[str, ...]
    cwd: str
    variables: dict[str, str]

    def __repr__(self) -> str:
        return "ServerRequest()"  # its arguments and variables may be secret


class ServerProcess(Protocol):
    """A program that was started to be talked to. It ends with `stop`, and with the host however that ends."""

    async def receive(self) -> bytes:
        """The next bytes that it writes to its standard output; none when it has ended, or closed that.

        Raises:
            OSError: it could not be started, by the name of the reason.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Writes to its standard input; waits for as long as it does not read. Raises BrokenPipeError."""
        ...

    def told(self) -> str:
        """How it ended, where it has, and the end of what it wrote to its standard error; in a phrase."""
        ...

    async def stop(self) -> None:
        """Ends its input, then asks it to end, then ends it with all that it started; bounded in time."""
        ...
