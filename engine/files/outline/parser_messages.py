"""Messages between a worker or host and its parser process, split into records.

The process makes outlines; asked by a host, it also decodes pictures. A record is small enough for one packet, and
names its message. So a message that was cut off, because a process died or was interrupted, cannot damage a later one:
the receiver drops records that do not continue a message. Pure. Used by `runtime.worker.forking.outlining`,
`runtime.worker.handles.outlines` and `runtime.picture_decoder`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ...core.pictures import StoredKind
from .model import Outline

RECORD_BYTES: Final = 1 << 16
"""Largest record, header included."""
LARGEST: Final = 24 << 20
"""Bytes of the largest message."""
LOST: Final = b"\0"
"""Sent by the zygote in place of a record: the parser process has ended, perhaps with a request."""
_HEAD: Final = 8
_FIRST: Final = 1
_LAST: Final = 2


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


def records(number: int, message: Request | PictureRequest | Reply | Decoded) -> Iterator[bytes]:
    """Split message number `number` into records."""
    body = _ENCODER.encode(message)
    size = RECORD_BYTES - _HEAD
    for start in range(0, len(body), size):
        mark = (_FIRST if start == 0 else 0) | (_LAST if start + size >= len(body) else 0)
        yield (number << 2 | mark).to_bytes(_HEAD, "little") + body[start : start + size]


class Pieces:
    """Joins records to messages."""

    def __init__(self) -> None:
        self._number = -1
        self._body = bytearray()

    def feed(self, record: bytes) -> tuple[int, bytes] | None:
        """Add a record.

        Return the number and body of a message that is now complete.

        A record that does not continue a message is dropped.
        """
        head = int.from_bytes(record[:_HEAD], "little")
        number, mark = head >> 2, head & (_FIRST | _LAST)
        if mark & _FIRST:
            self._number, self._body = number, bytearray()
        if number != self._number or len(record) <= _HEAD or len(self._body) > LARGEST:
            return None
        self._body += record[_HEAD:]
        if not mark & _LAST:
            return None
        self._number = -1
        return number, bytes(self._body)


def request_of(body: bytes) -> Request | PictureRequest:
    """Decode a request. Raises ValueError for anything else."""
    return _REQUEST.decode(body)


def reply_of(body: bytes) -> Reply:
    """Decode a reply. Raises ValueError for anything else."""
    return _REPLY.decode(body)


def decoded_of(body: bytes) -> Decoded:
    """Decode the reply about a picture. Raises ValueError for anything else."""
    return _DECODED.decode(body)
