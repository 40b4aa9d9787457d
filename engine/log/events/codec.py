"""Events as JSON objects: `{"kind": ..., "v": ..., <fields>}`, one decoder per kind.

Used by the store, by export and import, and between worker and host. Decoding validates, because a log or a worker may
contain anything. Each decoder is made when it is first needed; one decoder for all kinds would slow down every start.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import msgspec

from ...core.text import cut_line
from . import EVENTS, Event

_CLASSES: Final[dict[str, type[Event]]] = {cls.kind: cls for cls in EVENTS}
_DECODERS: Final[dict[type[Event], msgspec.json.Decoder[Any]]] = {}
_MAKING: Final = threading.Lock()
_ENCODER: Final = msgspec.json.Encoder()
_REASON_CHARS: Final = 200
"""The length of the quoted input in an error."""
_HEADS: Final = {cls: f'{{"kind":"{cls.kind}","v":{cls.v},'.encode() for cls in EVENTS}


class UndecodableEventError(ValueError):
    """Raised for bytes that this version cannot decode: unknown kind, newer version, wrong fields, invalid JSON."""


class _Head(msgspec.Struct):
    kind: str
    v: int = 1


_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)


def encode(event: Event) -> bytes:
    """Return the event as one line of JSON in UTF-8, without a newline. Its strings must have no lone surrogates."""
    return _HEADS[type(event)] + _ENCODER.encode(event)[1:]


def decode(data: bytes | str) -> Event:
    """Return the event that `encode` wrote.

    Raises:
        UndecodableEventError: for anything else.
    """
    try:
        head = _HEAD_DECODER.decode(data)
        cls = _CLASSES.get(head.kind)
        if cls is None or head.v > cls.v:
            raise UndecodableEventError(
                f"this program does not know event kind {cut_line(repr(head.kind), _REASON_CHARS)}, version {head.v}"
            )
        event: Event = _decoder(cls).decode(data)
    except RecursionError as error:
        raise UndecodableEventError("the event's JSON is nested too deep") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UndecodableEventError(cut_line(str(error), _REASON_CHARS)) from error
    return event


def encode_readable(event: Event) -> bytes:
    """Encode the event and check that `decode` can read it; cheaper than both, because the kind is known.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError: JSON cannot represent it, or it could not be decoded.
    """
    data = encode(event)
    _decoder(type(event)).decode(data)
    return data


def _decoder(cls: type[Event]) -> msgspec.json.Decoder[Any]:
    decoder = _DECODERS.get(cls)
    if decoder is None:
        # One at a time: the process crashes if two threads make decoders of types that have a new type in common.
        with _MAKING:
            decoder = _DECODERS.get(cls) or _DECODERS.setdefault(cls, msgspec.json.Decoder(cls))
    return decoder
