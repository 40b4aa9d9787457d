"""Events as JSON objects: `{"kind": ..., "v": ..., <fields>}`, one decoder per kind.

Used by the store, by export and import, and between worker and host. Decoding validates: a log or a worker may hold
anything. Each kind has a decoder of its own, made when it is first needed, because one for all kinds would be paid for
at every start.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...core.text import cut_line
from . import EVENTS, Event

_CLASSES: Final[dict[str, type[Event]]] = {cls.kind: cls for cls in EVENTS}
_DECODERS: Final[dict[type[Event], msgspec.json.Decoder[Any]]] = {}
_ENCODER: Final = msgspec.json.Encoder()
_REASON_CHARS: Final = 200
"""What an error says at most of what was found."""
_HEADS: Final = {cls: f'{{"kind":"{cls.kind}","v":{cls.v},'.encode() for cls in EVENTS}


class UndecodableEventError(ValueError):
    """Raised for bytes that are no event this version knows: unknown kind, newer version, wrong fields, no JSON."""


class _Head(msgspec.Struct):
    kind: str
    v: int = 1


_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)


def encode(event: Event) -> bytes:
    """The event as one line of JSON in UTF-8, without a newline. Strings must be free of lone surrogates."""
    return _HEADS[type(event)] + _ENCODER.encode(event)[1:]


def decode(data: bytes | str) -> Event:
    """The event that `encode` wrote.

    Raises:
        UndecodableEventError: for anything else.
    """
    try:
        head = _HEAD_DECODER.decode(data)
        cls = _CLASSES.get(head.kind)
        if cls is None or head.v > cls.v:
            raise UndecodableEventError(
                f"event kind {cut_line(repr(head.kind), _REASON_CHARS)} version {head.v} is not known to this version"
            )
        event: Event = _decoder(cls).decode(data)
    except RecursionError as error:
        raise UndecodableEventError("its JSON is nested too deep") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UndecodableEventError(cut_line(str(error), _REASON_CHARS)) from error
    return event


def encode_readable(event: Event) -> bytes:
    """What `encode` gives, where `decode` can read it. Less than both of them cost, because the kind is known.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError: JSON cannot hold it, or what it holds could not be read.
    """
    data = encode(event)
    _decoder(type(event)).decode(data)
    return data


def _decoder(cls: type[Event]) -> msgspec.json.Decoder[Any]:
    decoder = _DECODERS.get(cls)
    if decoder is None:
        decoder = _DECODERS[cls] = msgspec.json.Decoder(cls)
    return decoder
