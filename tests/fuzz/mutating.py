"""Changes of inputs that keep their form: JSON with one value changed, lines in another order, frames of msgpack.

Half of the changes are libFuzzer's own, of single bytes. The first byte of `json` and `msgpack` chooses what the target
does with the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from conformance.fuzzing.values import mutate
from tests.fuzz.targets import Kind

_KEPT: Final = 1 << 16


def changed(kind: Kind, data: bytes, seed: int, of_bytes: Callable[[bytes], bytes]) -> bytes:
    """Return a changed input. `of_bytes` makes changes of single bytes."""
    random = Random(seed)
    if kind == "bytes" or random.random() < 0.5:
        return of_bytes(data)
    try:
        made = _CHANGES[kind](data, random)
    except (ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return of_bytes(data)
    return made if len(made) <= _KEPT else of_bytes(data)


def _json(data: bytes, random: Random) -> bytes:
    first = data[:1]
    if random.random() < 0.1:
        first = random.randbytes(1)
    return first + _dumped(mutate(json.loads(data[1:]), random))


def _whole_json(data: bytes, random: Random) -> bytes:
    return _dumped(mutate(json.loads(data), random))


def _lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    act = random.random()
    if act < 0.1:
        lines.insert(at, lines[random.randrange(len(lines))])
    elif act < 0.2:
        del lines[at]
    else:
        lines[at] = _whole_json(lines[at], random)
    return b"\n".join(lines)


def _msgpack(data: bytes, random: Random) -> bytes:
    # The body after the length; a wrong length is left to changes of bytes.
    value = msgspec.msgpack.decode(data[4:], type=Any)
    body = msgspec.msgpack.encode(mutate(value, random))
    return len(body).to_bytes(4, "little") + body


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_CHANGES: Final[dict[Kind, Callable[[bytes, Random], bytes]]] = {
    "json": _json,
    "lines": _lines,
    "msgpack": _msgpack,
}
