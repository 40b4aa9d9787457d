"""Programs that run for statements: shell commands and MCP servers on pipes, as requests and results.

Data, and the Protocol of a running server. `runtime` runs them; must not know how.
"""

from __future__ import annotations

import codecs
from typing import Final, Protocol

from msgspec import Struct, field

from .domain import Domain
from .text import between, whole_words_after_cut, whole_words_before_cut

_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""
_CUT_BYTES: Final = 3
"""How many of them a character has at most."""


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A program to run for a statement.

    `argv` begins with its absolute path; `cwd` is absolute, and with `directory` it must still be the directory of
    that device and inode. It may take `seconds`. It reads `stdin`, then the end of
    the file. With `merged` its stderr goes into its stdout, in order. At most `kept_bytes` of each stream are kept,
    half from the beginning and half from the end. Once it has printed `stop_at` bytes to stdout it is ended, and the
    output beyond that is dropped. With a `domain` it is sandboxed, or not started. `distrusted` and relative
    directories are removed from its `PATH`.
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
    directory: tuple[int, int] | None = None


class CommandOutput(Struct, frozen=True, kw_only=True):
    """The output of a program: its beginning and end, which are the whole if `left_out` is 0."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def left_out(self) -> int:
        """How many bytes between the two were not kept."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def text(self) -> str:
        """The output as text, with U+FFFD for invalid UTF-8, and a line that counts the bytes that were not kept."""
        if not self.left_out:
            return (self.head + self.tail).decode("utf-8", "replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(self.head)
        # The cut may have split a character between the two ends.
        data = self.tail[:_CUT_BYTES].lstrip(_CONTINUATION) + self.tail[_CUT_BYTES:]
        tail = data.decode("utf-8", "replace")
        before, after = whole_words_before_cut(head), whole_words_after_cut(tail)
        words = len(head) - len(before) + len(tail) - len(after)  # in ASCII
        lost = self.left_out + len(decoder.getstate()[0]) + len(self.tail) - len(data) + words
        return before + between(lost, noun="byte") + after


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """How a program ended: with an exit `code`, by a `signal`, or by us.

    We end it if it `timed_out`, if it is `stopped` at `stop_at`, or for the `reason` given. `changed` names the files
    that it made, changed and removed.
    """

    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    stopped: bool = False
    reason: str = ""
    changed: str = ""
    stdout: CommandOutput = field(default_factory=CommandOutput)
    stderr: CommandOutput = field(default_factory=CommandOutput)
    seconds: float = 0.0


class ServerRequest(Struct, frozen=True, kw_only=True):
    """A program to start and talk to. `argv` begins with its absolute path; `variables` is its whole environment."""

    argv: tuple[str, ...]
    cwd: str
    variables: dict[str, str]

    def __repr__(self) -> str:
        return "ServerRequest()"  # its arguments and variables may be secret


class ServerProcess(Protocol):
    """A running program to talk to. It ends with `stop`, or with the host, however that ends."""

    async def receive(self) -> bytes:
        """Return the next bytes of its standard output; empty when it has ended or closed that.

        Raises:
            OSError: it could not be started; the message is the reason.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; wait while it does not read. Raises BrokenPipeError."""
        ...

    def told(self) -> str:
        """Return a phrase with how it ended, if it has, and the end of its standard error."""
        ...

    async def stop(self) -> None:
        """Close its input, then ask it to end, then kill it with everything it started; limited in time."""
        ...
