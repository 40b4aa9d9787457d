"""Which versions of the protocol are spoken, and which of them a connection speaks.

`initialize` chooses: the version that the client asks for, or the newest older one that there is, or the oldest; no
version is refused. The connection keeps to that choice. Before it, calls are read as those of the oldest version, so
that a client that forgot `initialize` gets answers that it understands.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, cast

from acp_adapter.wire.codec import Codec, Json

CODECS: Final[Mapping[int, str]] = {1: "acp_adapter.wire.v1.codec"}
"""Protocol version to the module whose `CODEC` speaks it, the oldest first."""

_INITIALIZE: Final = "initialize"


def codec_for(requested: object) -> Codec:
    """The codec for a client that asked for this version, whatever it is."""
    oldest, *newer = CODECS
    fitting = [version for version in newer if isinstance(requested, int) and version <= requested]
    return import_module(CODECS[max(fitting, default=oldest)]).CODEC


class Negotiation:
    """The codec of one connection."""

    def __init__(self) -> None:
        self.codec = codec_for(None)
        """The codec in force."""

    def choose(self, requested: int, *, terminals: bool) -> None:
        """Speaks from now on what a client understands that asked for this version, and draws terminals or not."""
        self.codec = codec_for(requested).for_client(terminals=terminals)

    def read_params(self, method: str, params: object) -> Any:
        """The params of a call; those of `initialize` as the version that they ask for."""
        codec = codec_for(_requested(params)) if method == _INITIALIZE else self.codec
        return codec.read_params(method, params)

    def write_result(self, method: str, result: Any) -> Json:
        """The JSON of a result."""
        return self.codec.write_result(method, result)


def _requested(params: object) -> object:
    return cast("dict[str, object]", params).get("protocolVersion") if isinstance(params, dict) else None
