"""Messages between a worker or host and its parser process, and how they are framed on a stream.

The process makes outlines; asked by a host, it also decodes pictures. Messages are framed as in SLIP (RFC 1055): an END
byte before and after each, and none in it. Either side may stop in the middle, because its process was killed or
interrupted, and the next process goes on with the same socket. So a receiver skips everything before the first END, and
drops what lies between two ENDs if it is shorter than it says. What was cut off is lost, and no later message is
damaged. Pure. Used by `runtime.worker.forking.outlining`, `runtime.worker.handles.outlines` and
`runtime.picture_decoder`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from ...core.pictures import StoredKind
from .model import Outline

LARGEST: Final = 24 << 20
"""Bytes of the largest message."""
CHUNK: Final = 1 << 16
"""Bytes that a receiver reads at once."""
_HEAD: Final = Struct("<QI")
"""The number of the message, and the length of its body."""
_END, _ESCAPE = b"\xc0", b"\xdb"
_ESCAPED_END, _ESCAPED_ESCAPE = b"\xdb\xdc", b"\xdb\xdd"


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
    escaped = (_HEAD.pack(number, len(body)) + body).replace(_ESCAPE, _ESCAPED_ESCAPE).replace(_END, _ESCAPED_END)
    return _END + escaped + _END


NONE: Final = 0
"""The number of the message `LOST`."""
LOST: Final = _framed(NONE, b"")
"""Sent by the zygote: the parser process has ended, perhaps with a request."""


class Incoming:
    """Finds the messages in the bytes that one process receives."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_in_step = False
        """Whether an END was found, so that what follows is the beginning of a message."""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Add received bytes; return the number and body of each message that is now complete."""
        *ended, rest = data.split(_END)
        found: list[tuple[int, bytes]] = []
        for piece in ended:
            if self._is_in_step and (message := _unframed(bytes(self._held + piece))):
                found.append(message)
            self._held.clear()
            self._is_in_step = True
        if self._is_in_step:
            self._held += rest
        if len(self._held) > 2 * LARGEST:
            self._held.clear()
            self._is_in_step = False
        return found


def _unframed(escaped: bytes) -> tuple[int, bytes] | None:
    frame = escaped.replace(_ESCAPED_END, _END).replace(_ESCAPED_ESCAPE, _ESCAPE)
    if len(frame) < _HEAD.size:
        return None
    number, length = _HEAD.unpack_from(frame)
    return (number, frame[_HEAD.size :]) if len(frame) == _HEAD.size + length else None


def request_of(body: bytes) -> Request | PictureRequest:
    """Decode a request. Raises ValueError for anything else."""
    return _REQUEST.decode(body)


def reply_of(body: bytes) -> Reply:
    """Decode a reply. Raises ValueError for anything else."""
    return _REPLY.decode(body)


def decoded_of(body: bytes) -> Decoded:
    """Decode the reply about a picture. Raises ValueError for anything else."""
    return _DECODED.decode(body)
