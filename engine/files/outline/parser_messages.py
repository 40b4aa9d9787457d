"""Messages between a worker or host and its parser process, and how they are framed on a stream.

The process makes outlines; asked by a host, it also decodes pictures. An END stands before and after each message, and
never in one (byte stuffing, as in RFC 1055, where it is a single byte; a long one is rare, and so replaced in no time).
Either side may stop in the middle, because its process was killed or interrupted, and the next process goes on with the
same socket. So a receiver skips everything before the first END, and drops what lies between two ENDs if it is shorter
than it says. What was cut off is lost, and no later message is damaged. Pure. Used by
`runtime.worker.forking.outlining`, `runtime.worker.handles.outlines` and `runtime.picture_decoder`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.pictures import StoredKind
from .model import Outline

LARGEST: Final = 24 << 20
"""Bytes of the largest message."""
CHUNK: Final = 1 << 16
"""Bytes that a receiver reads at once."""
_HEAD: Final = b"%016x%08x"
"""The number of the message and the length of its body, without any byte of an END."""
_NUMBER_BYTES, _HEAD_BYTES = 16, 24
_MARK: Final = bytes((0xC0, 0xC1, *range(0xF5, 0x100)))
"""The bytes that UTF-8 never has, so it is in no text. It cannot overlap itself, because they differ."""
_END: Final = _MARK + b"\0"
_MARK_INSIDE: Final = _MARK + b"\1"


class Request(msgspec.Struct, frozen=True, array_like=True, tag="outline"):
    """A request to outline a UTF-8 text by the grammar of its language.

    A `patient` one has ten times as much time.
    """

    path: str
    text: bytes
    references: bool = False
    patient: bool = False


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The outline, or the reason why there is none."""

    outline: Outline | None
    reason: str = ""


class PictureRequest(msgspec.Struct, frozen=True, array_like=True, tag="picture"):
    """A request to decode a picture: the bytes of a file, and the most pixels of the result; 0 for the usual limits."""

    data: bytes
    pixels: int = 0


class Decoded(msgspec.Struct, frozen=True, array_like=True):
    """A picture as a session keeps it, with its media type and its size in pixels; or the reason why there is none."""

    data: bytes = b""
    media_type: StoredKind = ""
    width: int = 0
    height: int = 0
    reason: str = ""


_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUEST: Final = msgspec.msgpack.Decoder(Request | PictureRequest)
_REPLY: Final = msgspec.msgpack.Decoder(Reply)
_DECODED: Final = msgspec.msgpack.Decoder(Decoded)


def framed(number: int, message: Request | PictureRequest | Reply | Decoded) -> bytes:
    """Message number `number`, from 1, as bytes to send."""
    return _framed(number, _ENCODER.encode(message))


def _framed(number: int, body: bytes) -> bytes:
    return b"".join((_END, _HEAD % (number, len(body)), body.replace(_MARK, _MARK_INSIDE), _END))


NONE: Final = 0
"""The number of the message `LOST`."""
LOST: Final = _framed(NONE, b"")
"""Sent by the zygote: the parser process has ended, perhaps with a request."""


class Incoming:
    """Finds the messages in the bytes that one process receives."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0
        self._is_in_step = False
        """Whether an END was found, so that what follows is the beginning of a message."""
        self._is_stuffed = False
        """Whether what follows contains a mark."""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Add received bytes; return the number and body of each message that is now complete."""
        self._held += data
        found: list[tuple[int, bytes]] = []
        while 0 <= (at := self._held.find(_MARK, self._searched)) <= len(self._held) - len(_END):
            if not self._held.startswith(_END, at):
                self._searched, self._is_stuffed = at + len(_MARK), True
                continue
            if self._is_in_step and (message := self._unframed(at)):
                found.append(message)
            self._begin(at + len(_END), is_in_step=True)
        # The last bytes may be the beginning of an END.
        self._searched = max(len(self._held) - len(_END) + 1, self._searched)
        if not self._is_in_step or len(self._held) > 2 * LARGEST:
            self._begin(self._searched, is_in_step=False)
        return found

    def _begin(self, at: int, *, is_in_step: bool) -> None:
        del self._held[:at]
        self._searched, self._is_in_step, self._is_stuffed = 0, is_in_step, False

    def _unframed(self, end: int) -> tuple[int, bytes] | None:
        try:
            number, length = int(self._held[:_NUMBER_BYTES], 16), int(self._held[_NUMBER_BYTES:_HEAD_BYTES], 16)
        except ValueError:
            return None
        body = bytes(memoryview(self._held)[_HEAD_BYTES:end])
        if self._is_stuffed:
            body = body.replace(_MARK_INSIDE, _MARK)
        return (number, body) if len(body) == length else None


def request_of(body: bytes) -> Request | PictureRequest:
    """Decode a request. Raises ValueError for anything else."""
    return _REQUEST.decode(body)


def reply_of(body: bytes) -> Reply:
    """Decode a reply. Raises ValueError for anything else."""
    return _REPLY.decode(body)


def decoded_of(body: bytes) -> Decoded:
    """Decode the reply about a picture. Raises ValueError for anything else."""
    return _DECODED.decode(body)
