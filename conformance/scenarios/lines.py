"""Lines that a program over JSON-RPC is sent whatever its protocol: what is no message, and what nobody asked for."""

from __future__ import annotations

from typing import Final

MALFORMED: Final = (
    b"{\n",
    b"not json at all\n",
    b'{"jsonrpc":"2.0","id":901,"method"\n',
    b"5\n",
    b'"text"\n',
    b"null\n",
    b"{}\n",
    b'{"jsonrpc":"2.0","method":5,"id":902}\n',
    b'{"jsonrpc":"2.0","id":[1],"result":{}}\n',
)
"""No JSON, or no message. An empty array is left out, because batches are another question."""
NOT_UTF8: Final = b'{"jsonrpc":"2.0","id":903,"method":"\xff\xfe"}\n'
UNASKED: Final = (
    b'{"jsonrpc":"2.0","id":987654,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":"987655","error":{"code":-32603,"message":"Internal error"}}\n',
)
"""Responses to no request."""
