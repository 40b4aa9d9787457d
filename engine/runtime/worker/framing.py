"""Messages as bytes and back: a 4-byte little-endian length, then msgpack.

Nothing is ever pickled: the worker runs untrusted code, so what comes from it is decoded with types, and whatever does
not fit is a `ProtocolError`, never another exception. Used on both ends of every channel of `protocol`; the host
decodes messages of a worker in `control_channel.MessageReader` alone.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...core.plain_data import clean
from ...log.events import Event
from ...log.events.codec import encode as encode_event
from .protocol import FromCheckpoint, FromKeeper, FromWorker, FromZygote, ReplayStep, ToWorker, ToZygote

MAX_FRAME: Final = 80 << 20
"""Bytes of one frame's body, at most, in either direction: 64 MiB of content with what is said of it."""
_PREFIX: Final = 4


class ProtocolError(ValueError):
    """Raised for bytes that are no message of the expected direction."""


class FrameTooLargeError(ProtocolError):
    """Raised before a message is sent whose frame would exceed `MAX_FRAME`."""


_ENCODER: Final = msgspec.msgpack.Encoder()


def frame(message: ToZygote | FromZygote | FromKeeper | FromCheckpoint | ToWorker | FromWorker) -> bytes:
    """The message as bytes to send, cleaned where it has to be.

    Raises:
        FrameTooLargeError: its encoding exceeds `MAX_FRAME`.
    """
    body = _packed(message)
    if len(body) > MAX_FRAME:
        raise FrameTooLargeError(f"a message of {len(body)} bytes; at most {MAX_FRAME} are sent")
    return len(body).to_bytes(_PREFIX, "little") + body


def _packed(message: object) -> bytes:
    try:
        return _ENCODER.encode(message)
    except (UnicodeEncodeError, OverflowError):
        return _ENCODER.encode(clean(message))


def pack_step(step: ReplayStep) -> msgspec.Raw:
    """A step as `Replay` has it. Raises TypeError for an answer that is no plain data."""
    return msgspec.Raw(_packed(step))


class FrameBuffer:
    """Bytes in, bodies of frames out, whatever the pieces are in which the bytes come."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data

    @property
    def begun(self) -> bool:
        """Whether there is anything that `next` has not taken."""
        return bool(self._bytes)

    @property
    def complete(self) -> bool:
        """Whether `next` has something to say without further bytes."""
        return len(self._bytes) >= _PREFIX and len(self._bytes) >= _PREFIX + self._size()

    def _size(self) -> int:
        return int.from_bytes(self._bytes[:_PREFIX], "little")

    def next(self) -> bytes | None:
        """The body of the next complete frame, or None. Raises ProtocolError for one that says it is too large."""
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
    """Decodes messages of one direction, by their union."""
    return msgspec.msgpack.Decoder(messages, ext_hook=_refuse_extension)


_TO_ZYGOTE: Final = decoder_of(ToZygote)
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
    """Raises ProtocolError, as its siblings do."""
    return decode(_TO_ZYGOTE, body)


def from_zygote(body: bytes) -> FromZygote:
    return decode(_FROM_ZYGOTE, body)


def from_keeper(body: bytes) -> FromKeeper:
    return decode(_FROM_KEEPER, body)


def to_worker(body: bytes) -> ToWorker:
    return decode(_TO_WORKER, body)


def to_step(packed: msgspec.Raw) -> ReplayStep:
    return decode(_STEP, bytes(packed))


def pack_events(events: tuple[Event, ...]) -> tuple[bytes, ...]:
    """Events as JSON, cleaned where they have to be."""
    packed: list[bytes] = []
    for event in events:
        try:
            packed.append(encode_event(event))
        except (UnicodeEncodeError, OverflowError):
            packed.append(encode_event(clean(event)))
    return tuple(packed)


def events_of(packed: tuple[bytes, ...], *kinds: type[Event]) -> tuple[bytes, ...]:
    """Those of the packed events that are of one of these kinds."""
    heads = tuple(f'{{"kind":"{kind.kind}",'.encode() for kind in kinds)
    return tuple(data for data in packed if data.startswith(heads))
