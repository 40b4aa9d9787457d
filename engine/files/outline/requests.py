"""What is asked of a parser process and what it answers, as records: pieces of a message, each short enough to be sent.

A record says of which message it is a piece. So one that was left half-sent, because somebody died or was interrupted,
spoils no later one: whoever receives drops what does not continue. Pure. Used by `worker.outlining` and
`worker.outlines`; the zygote sends LOST where a process ended between two records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from .model import Outline, Tier

RECORD_BYTES: Final = 1 << 16
"""Of a record at most, head and all."""
LARGEST: Final = 24 << 20
"""Bytes of one message at most."""
LOST: Final = b"\0"
"""The process that may have had a request has ended."""
_HEAD: Final = 8
_FIRST: Final = 1
_LAST: Final = 2


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Make the outline of a text in UTF-8 by this tier; `patient` says that nobody waits for it."""

    tier: Tier
    path: str
    text: bytes
    references: bool = False
    patient: bool = False


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The outline, or why this tier could make none."""

    outline: Outline | None
    reason: str = ""


_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUEST: Final = msgspec.msgpack.Decoder(Request)
_REPLY: Final = msgspec.msgpack.Decoder(Reply)


def records(number: int, message: Request | Reply) -> Iterator[bytes]:
    """The message number `number` in pieces."""
    body = _ENCODER.encode(message)
    size = RECORD_BYTES - _HEAD
    for start in range(0, len(body), size):
        mark = (_FIRST if start == 0 else 0) | (_LAST if start + size >= len(body) else 0)
        yield (number << 2 | mark).to_bytes(_HEAD, "little") + body[start : start + size]


class Pieces:
    """Puts records together again."""

    def __init__(self) -> None:
        self._number = -1
        self._body = bytearray()

    def feed(self, record: bytes) -> tuple[int, bytes] | None:
        """The number and the body of the message that is complete now. What does not continue one is dropped."""
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


def request_of(body: bytes) -> Request:
    """Raises ValueError for anything else."""
    return _REQUEST.decode(body)


def reply_of(body: bytes) -> Reply:
    """Raises ValueError for anything else."""
    return _REPLY.decode(body)
