"""The host's end of whatever runs statements: a Protocol, its messages, and captured output."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import anyio
import xxhash

from ..core.execution import Captured
from ..log.redaction import Redactor
from ..log.statements import TouchSink, ignore_touched
from .checkpoints import PausedWorker
from .control_channel import Death, MessageReader
from .worker.framing import ProtocolError
from .worker.protocol import (
    KEPT_BYTES,
    KEPT_GROUPS,
    TOUCHED_FILES,
    FromWorker,
    Kept,
    Noted,
    Touching,
    ToWorker,
)

# What a statement writes to one stream: the beginning as text, everything as a count and a digest.
#
# Owns the bounds, the decoding and the redaction of what is printed, which `worker_messages` explains. Must not know
# where the bytes come from. Fed by the connections.

_DECODER: Final = codecs.getincrementaldecoder("utf-8")
CAPTURED_BYTES: Final = 64 << 10
"""Bytes of a stream that are kept as text."""
_NOTHING: Final = Captured(digest=xxhash.xxh3_64_hexdigest(b""), kept_bytes=0)
"""What most statements write: one value for all of them, because a session's log keeps each for good."""


class Capture:
    """Takes bytes as they come, in pieces of any size, in constant memory.

    `sink` is given the kept text while it grows, without secrets; an end of it that may be the beginning of one waits
    for what comes next. Invalid UTF-8 becomes U+FFFD; the text ends at a character boundary.
    """

    def __init__(self, redactor: Redactor, sink: Callable[[str], None] | None = None) -> None:
        self._redactor = redactor
        self._sink = sink
        self._held = ""
        """What the sink has not been given yet."""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._digest = xxhash.xxh3_64()
        self._texts: list[str] = []
        self._total = 0

    def feed(self, data: bytes) -> None:
        room = CAPTURED_BYTES - self._total
        self._total += len(data)
        self._digest.update(data)
        if room > 0:
            self._decoder = self._decoder or _DECODER("replace")
            self._keep(self._decoder.decode(data[:room]))

    def finish(self) -> Captured:
        """What was captured. A character that is incomplete at the very end becomes U+FFFD; one cut off is left out."""
        if not self._total:
            return _NOTHING
        if self._decoder is not None and self._total <= CAPTURED_BYTES:
            self._keep(self._decoder.decode(b"", final=True))
        return Captured(
            # What is cut here is cut in bytes, and no word in the text says so.
            text=self._redactor.redact("".join(self._texts), is_cut=self._total > CAPTURED_BYTES),
            total_bytes=self._total,
            digest=self._digest.hexdigest(),
            kept_bytes=min(self._total, CAPTURED_BYTES),
        )

    def _keep(self, text: str) -> None:
        if text:
            self._texts.append(text)
            if self._sink is not None:
                shown, self._held = self._redactor.redact_piece(self._held + text)
                if shown:
                    self._sink(shown)


# connection:
# The host's end of whatever runs statements, as `statement_run` and `connected_environment` use it.
#
# Owns what is the same for a worker process and for a thread: receiving within a scope, violations of the protocol,
# and the wait for an end. Must not know how messages travel. Implemented by `worker_connection` and
# `thread_connection`.

START_SECONDS: Final = 30.0
"""How long the other side may take to begin."""
Received = FromWorker | Death


class Connection(ABC):
    """One namespace's runner, from its start until `close`; `reader` reads what it says."""

    def __init__(self, reader: MessageReader) -> None:
        self.reader = reader
        self._death: Death | None = None
        self._violation: str | None = None
        self._closed = False
        self._touched: TouchSink = ignore_touched
        self._notices = 0
        self._keeping: str | None = None
        self._kept: Kept | None = None

    @property
    def dead(self) -> bool:
        return self._death is not None or self._closed

    @abstractmethod
    def send(self, message: ToWorker) -> None:
        """Queues the message. Raises FrameTooLargeError with nothing queued."""

    @abstractmethod
    def interrupt(self) -> None:
        """Has the running statement interrupted once; may be repeated."""

    @abstractmethod
    def begin_capture(self, stdout: Capture, stderr: Capture) -> None:
        """Whatever is written from now on goes into these."""

    def begin_touches(self, touched: TouchSink) -> None:
        """Whatever the statements' own code is about to write is told to this from now on."""
        self._touched = touched
        self._notices = 0

    def announce_reading(self, on: bool) -> None:
        """While it is on, the worker is told before its output is read for the first time; see `OutputTaken`."""
        del on

    def begin_keeping(self, execution_id: str | None) -> None:
        """What is kept of this execution follows its end by itself; None where nothing does."""
        self._keeping = execution_id
        self._kept = None

    @property
    def keeping(self) -> bool:
        """Whether something follows that was not taken yet."""
        return self._keeping is not None

    def kept(self) -> Kept | None:
        """What has followed the last statement, if it is there. Not while somebody receives."""
        if self._keeping is not None and self._hear_kept() is None and self.look():
            self._hear_kept()
        return self._kept

    async def receive_kept(self, scope: anyio.CancelScope) -> Kept | Death | None:
        """The same, or the death, or None when `scope`, which this enters, ends first."""
        with scope:
            while (heard := self._hear_kept()) is None:
                await self._progress()
            return heard
        return None

    def _hear_kept(self) -> Kept | Death | None:
        message = None if self._kept is not None else self._next()
        if message is not None and not isinstance(message, Death):
            self.violate(f"{type(message).__name__} between two requests")
            return None
        return self._kept or message

    def watch_memory(self, on: bool) -> None:
        """A statement begins or ends; where there is a process, what it holds with all its own is bounded meanwhile."""
        del on

    def snapshot(self, data_bytes: int) -> PausedWorker | None:
        """Has a copy made of the other side, after what was asked of it before; returns at once. None for never.

        Raises:
            OSError: nobody can be asked.
        """
        del data_bytes
        return None

    @abstractmethod
    def drain(self) -> None:
        """Takes the output that is there at this moment and no more: something in the background may write for ever."""

    @abstractmethod
    def look(self) -> bool:
        """Whether there is still somebody at the other end, without waiting. Not while somebody receives."""

    @abstractmethod
    def end(self) -> None:
        """Has the other side ended; whoever receives learns of the death."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back; may be repeated."""

    @abstractmethod
    async def acknowledged(self) -> None:
        """Returns when every interrupt asked for has been sent, or the other side is dead."""

    async def receive(self, scope: anyio.CancelScope) -> Received | None:
        """The next message, or the death, or None when `scope`, which this enters, ends first."""
        with scope:
            while (message := self._next()) is None:
                await self._progress()
            return message
        return None

    async def first(self) -> Received | None:
        """The first message, or the death, or None when neither came in time."""
        return await self.receive(anyio.move_on_after(START_SECONDS))

    async def kill(self) -> Death:
        """Ends the other side and returns how it ended, within seconds. Not while somebody receives."""
        self.end()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(self._death_seconds()):
                while self._death is None:
                    await self._progress()
        # Once more, because after a pause of the whole machine the time is over before anything was read.
        if self._death is None:
            self.look()
        if self._death is None:
            self._death = self._give_up()
        return self._cause(self._death)

    def violate(self, reason: str) -> None:
        """The other side said what it must not: nothing more is read from it, and it is ended."""
        self._violation = f"protocol violation: {reason}"
        self._stop_reading()
        self.end()

    # --- for the implementations -------------------------------------------------------------------------------------

    @abstractmethod
    async def _progress(self) -> None:
        """Waits until something can be read or written, and does it."""

    @abstractmethod
    def _next_body(self) -> bytes | None:
        """The body of the next frame, if it is there. Raises ProtocolError."""

    @abstractmethod
    def _stop_reading(self) -> None: ...

    @abstractmethod
    def _death_seconds(self) -> float:
        """How long an end may take before `_give_up`."""

    @abstractmethod
    def _give_up(self) -> Death:
        """The other side did not end in time: does what is left to do, and says what became of it."""

    def _next(self) -> Received | None:
        if self._violation is None:
            try:
                while (body := self._next_body()) is not None:
                    message = self.reader.message(body)
                    if isinstance(message, Kept):
                        self._take_kept(message)
                    elif isinstance(message, Touching):
                        self._take_touch(message)
                    else:
                        return message
            except ProtocolError as error:
                self.violate(str(error))
        return None if self._death is None else self._cause(self._death)

    def _take_touch(self, message: Touching) -> None:
        self._notices += 1
        # Twice as many are accepted, because threads that send at the same time may each send the last one.
        if self._notices > 2 * TOUCHED_FILES:
            raise ProtocolError("a statement told of more files than it may")
        number = message.number
        self._touched(message.path, lambda: self._answer_notice(number))

    def _answer_notice(self, number: int) -> None:
        if not self.dead and self._violation is None:
            self.send(Noted(number))

    def _take_kept(self, message: Kept) -> None:
        if message.execution_id != self._keeping:
            return  # of a statement before, whose values nobody has asked for
        if self._kept is not None:
            raise ProtocolError("values of one execution were sent twice")
        if len(message.groups) > KEPT_GROUPS or sum(len(group.data) for group in message.groups) > KEPT_BYTES:
            raise ProtocolError("more values than may be sent unasked")
        self._kept = message

    def _cause(self, death: Death) -> Death:
        return Death(self._violation) if self._violation else death
