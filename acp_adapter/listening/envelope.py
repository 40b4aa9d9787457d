"""What routes a message: its method, its id and its session. The rest is not decoded, only checked to be JSON.

The process that listens serves all users, and a message of 16 MiB takes seconds to decode. msgspec skips it in 0.1 s.

Must not know HTTP. Used by `app` and `connections`.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from acp_adapter.jsonrpc.lines import ParseError, decode

LONGEST_ID: Final = 1_000
"""Characters, or digits, of the id of a request."""
_LARGE: Final = 1 << 20
"""Bytes from which no message is decoded."""
_NO_OBJECT: Final = "The message is not a JSON object"


class _Params(Struct):
    session: Any = msgspec.field(default=None, name="sessionId")
    request: Any = msgspec.field(default=None, name="requestId")


class Envelope(Struct):
    """`method`, `id` and `result` are UNSET if the message has none."""

    method: Any = UNSET
    id: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        return self.method is not UNSET and self.id is not UNSET

    @property
    def session(self) -> str | None:
        """The session that the params name."""
        return _text(self._params.session)

    @property
    def cancelled(self) -> object:
        """The request that the params name, or None."""
        return self._params.request

    @property
    def _params(self) -> _Params:
        try:
            return _PARAMS.decode(self.params) if isinstance(self.params, Raw) else _Params()
        except (msgspec.DecodeError, RecursionError):
            return _Params()


_PARAMS: Final = msgspec.json.Decoder(_Params)
_ENVELOPE: Final = msgspec.json.Decoder(Envelope)


def envelope(message: bytes) -> Envelope:
    """Return what routes a message. Raises ParseError, also for a batch, and for an id that is no id."""
    try:
        message.decode("utf-8")
        found = _ENVELOPE.decode(message)
    except UnicodeDecodeError:
        raise ParseError("The message is not valid UTF-8") from None
    except msgspec.ValidationError:
        raise ParseError(_NO_OBJECT) from None
    except RecursionError:
        raise ParseError("The message is nested too deeply") from None
    except msgspec.DecodeError:
        found = _repaired(message)
    if not _is_id(found.id):
        raise ParseError(f"The id is not a number or a string of up to {LONGEST_ID:,} characters")
    return found


def _repaired(message: bytes) -> Envelope:
    """Return that of a message with half a surrogate pair, which msgspec refuses. Raises ParseError."""
    if len(message) > _LARGE:
        raise ParseError("The message is not valid JSON, or has half a surrogate pair")
    value = decode(message)
    if not isinstance(value, dict):
        raise ParseError(_NO_OBJECT)
    fields = cast("dict[str, Any]", value)
    raw = {name: Raw(msgspec.json.encode(fields[name])) for name in ("params", "result") if name in fields}
    return Envelope(fields.get("method", UNSET), fields.get("id", UNSET), **raw)


def _is_id(given: object) -> bool:
    if isinstance(given, str):
        return len(given) <= LONGEST_ID
    return given is UNSET or given is None or (isinstance(given, int | float) and not isinstance(given, bool))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
