"""Reads and writes one line of JSON; nothing that goes out can make a strict reader refuse it.

Must not know what a message means. Reading uses the standard library, because it takes integers of any size and gives
lone surrogates away as text to be mended, at 2 microseconds a message; writing uses msgspec (0.3 microseconds) and
falls back to the standard library for what msgspec refuses.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, cast

import msgspec


class ParseError(ValueError):
    """Raised by `decode`; its text is one sentence that repeats nothing of the line."""


def _refuse_constant(_: str) -> Any:
    raise ParseError("NaN and Infinity are not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode(line: bytes) -> Any:
    """The value of one line of UTF-8 JSON; lone surrogates in its strings become U+FFFD. Raises ParseError."""
    try:
        value = _DECODER.decode(line.decode("utf-8"))
        # because only an escape can bring a surrogate in, and mending costs a walk over everything
        return mended(value) if b"\\ud" in line or b"\\uD" in line else value
    except ParseError:
        raise
    except UnicodeDecodeError:
        raise ParseError("The line is not valid UTF-8") from None
    except RecursionError:
        raise ParseError("The line is nested too deeply") from None
    except ValueError:
        raise ParseError("The line is not valid JSON") from None


def encode(message: Any) -> bytes:
    """One line of UTF-8 JSON with its newline. Raises TypeError for a value that JSON cannot hold.

    Lone surrogates become U+FFFD, floats that are not finite become null.
    """
    try:
        return msgspec.json.encode(message) + b"\n"
    except (UnicodeEncodeError, OverflowError):
        return _ENCODER.encode(mended(message)).encode("utf-8") + b"\n"
    except RecursionError:
        raise TypeError("the message is nested too deeply for JSON") from None


def mended(value: Any) -> Any:
    """A copy of a JSON value in which every string can be encoded as UTF-8 and every float as JSON."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case float():
            return value if isfinite(value) else None
        case dict():
            return {mended(key): mended(item) for key, item in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [mended(item) for item in cast("list[Any]", value)]
        case _:
            return value
