"""Messages as bytes and back: a 4-byte little-endian length, then msgpack.

Nothing is ever unpickled. The worker runs untrusted code, so its bytes are decoded with types, and anything else is a
`ProtocolError`, never another exception. Used on both ends of every channel of `protocol`; the host decodes a worker's
messages only in `control_channel.MessageReader`.
"""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from ...core.plain_data import clean
from ...log.events import Event
from ...log.events.codec import encode as encode_event
from .protocol import (
    FromCheckpoint,
    FromKeeper,
    FromWorker,
    FromZygote,
    ReplayStep,
    ToForked,
    ToWorker,
    ToZygote,
)

MAX_FRAME: Final = 80 << 20
"""The largest body of a frame in bytes, in either direction: 64 MiB of content and its metadata."""
_PREFIX: Final = 4


class ProtocolError(ValueError):
    """Raised for bytes that are not a message of the expected direction."""


class FrameTooLargeError(ProtocolError):
    """Raised before a message is sent whose frame would exceed `MAX_FRAME`."""


_ENCODER: Final = msgspec.msgpack.Encoder()


def frame(message: ToZygote | ToForked | FromZygote | FromKeeper | FromCheckpoint | ToWorker | FromWorker) -> bytes:
    """The message as bytes to send, with text and numbers cleaned that cannot be encoded.

    Raises:
        FrameTooLargeError: its encoding exceeds `MAX_FRAME`.
    """
    body = _packed(message)
    if len(body) > MAX_FRAME:
        raise FrameTooLargeError(f"the message has {len(body)} bytes; at most {MAX_FRAME} are sent")
    return len(body).to_bytes(_PREFIX, "little") + body


def _packed(message: object) -> bytes:
    try:
        return _ENCODER.encode(message)
    except (UnicodeEncodeError, OverflowError):
        return _ENCODER.encode(clean(message))


def pack_step(step: ReplayStep) -> msgspec.Raw:
    """A step in the form of `Replay`. Raises TypeError for an answer that is not plain data."""
    return msgspec.Raw(_packed(step))


class FrameBuffer:
    """Takes bytes in any pieces, and returns the bodies of frames."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data

    @property
    def begun(self) -> bool:
        """Whether there are bytes that `next` has not returned."""
        return bool(self._bytes)

    @property
    def complete(self) -> bool:
        """Whether `next` returns a frame, or raises, without further bytes."""
        return len(self._bytes) >= _PREFIX and len(self._bytes) >= _PREFIX + self._size()

    def _size(self) -> int:
        return int.from_bytes(self._bytes[:_PREFIX], "little")

    def next(self) -> bytes | None:
        """The body of the next complete frame, or None. Raises ProtocolError if its announced size is too large."""
        if len(self._bytes) >= _PREFIX and (size := self._size()) > MAX_FRAME:
            raise ProtocolError(f"a frame of {size} bytes was announced; at most {MAX_FRAME} are read")
        if not self.complete:
            return None
        end = _PREFIX + self._size()
        body = bytes(self._bytes[_PREFIX:end])
        del self._bytes[:end]
        return body


def _refuse_extension(code: int, data: memoryview) -> object:
    raise ValueError(f"msgpack extension {code} of {len(data)} bytes")


def decoder_of(messages: Any) -> msgspec.msgpack.Decoder[Any]:
    """The decoder of one direction's messages, given their union."""
    return msgspec.msgpack.Decoder(messages, ext_hook=_refuse_extension)


_TO_ZYGOTE: Final = decoder_of(ToZygote)
_TO_FORKED: Final = decoder_of(ToForked)
_FROM_ZYGOTE: Final = decoder_of(FromZygote)
_FROM_KEEPER: Final = decoder_of(FromKeeper)
_TO_WORKER: Final = decoder_of(ToWorker)
_STEP: Final = decoder_of(ReplayStep)


def decode(decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
    """Raises ProtocolError."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(str(error)) from error


def to_zygote(body: bytes) -> ToZygote:
    """Decode a message to the zygote. Raises ProtocolError, like the next functions."""
    return decode(_TO_ZYGOTE, body)


def to_forked(body: bytes) -> ToForked:
    return decode(_TO_FORKED, body)


def received(connection: int) -> ToForked:
    """Wait for the first message on a forked process's own socket, and read nothing of what follows it.

    Raises:
        EOFError: the host is gone.
        ProtocolError: it is not such a message.
    """
    return to_forked(_read(connection, int.from_bytes(_read(connection, _PREFIX), "little")))


def _read(connection: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (piece := os.read(connection, size - len(data))):
            raise EOFError("the host is gone")
        data += piece
    return bytes(data)


def from_zygote(body: bytes) -> FromZygote:
    return decode(_FROM_ZYGOTE, body)


def from_keeper(body: bytes) -> FromKeeper:
    return decode(_FROM_KEEPER, body)


def to_worker(body: bytes) -> ToWorker:
    return decode(_TO_WORKER, body)


def to_step(packed: msgspec.Raw) -> ReplayStep:
    return decode(_STEP, bytes(packed))


def pack_events(events: tuple[Event, ...]) -> tuple[bytes, ...]:
    """Events as JSON, with text and numbers cleaned that cannot be encoded."""
    packed: list[bytes] = []
    for event in events:
        try:
            packed.append(encode_event(event))
        except (UnicodeEncodeError, OverflowError):
            packed.append(encode_event(clean(event)))
    return tuple(packed)


def events_of(packed: tuple[bytes, ...], *kinds: type[Event]) -> tuple[bytes, ...]:
    """The packed events of these kinds."""
    heads = tuple(f'{{"kind":"{kind.kind}",'.encode() for kind in kinds)
    return tuple(data for data in packed if data.startswith(heads))
