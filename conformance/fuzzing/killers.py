"""What programs are known to die of, which is sent before anything random.

Lines that are no message, messages of an unusual form, and responses and cancels that nobody expects. Each was seen to
end a program. Known by `targets`; must not know how lines are sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

_LONG: Final = 2 * 1024 * 1024
"""Characters of the longest line: more than the limits that readers of lines have by default."""

LINES: Final = (
    *("[]", "42", '"x"', "null", "true", "{}", "5", "[42]", "{", "}", "nonsense", '{"jsonrpc":"2.0"}'),
    *('{"jsonrpc":"2.0","id":null}', '{"jsonrpc":"2.0","method":null}', '{"jsonrpc":"2.0","id":{},"result":null}'),
    *('{"jsonrpc":"2.0","method":"x","params":1e999}', "[" * 500 + "]" * 500, '"\\ud800"', '"\\ud83d"', "\ufeff{}"),
    *("", "   ", "\r"),
    '{"jsonrpc":"2.0","method":"\udcff\udcfe"}',  # bytes that are no UTF-8, as Python writes them in a text
    '{"jsonrpc":"2.0","id":987654,"result":{}}',
    '{"jsonrpc":"2.0","id":"987655","error":{"code":-32603,"message":"Internal error"}}',
    '{"jsonrpc":"2.0","method":"_rewindow_conformance/note","params":{"text":"nothing"}}',
    '{"jsonrpc":"2.0","method":"notifications/rewindow_conformance","params":{"text":"nothing"}}',
    json.dumps({"jsonrpc": "2.0", "method": "_rewindow_conformance/long", "params": {"text": "x" * _LONG}}),
)
"""For any protocol over JSON-RPC. Programs take for granted that what they read is an object, or has an end."""


def without_objects(methods: Iterable[str]) -> list[str]:
    """Requests whose params are missing, or anything but an object."""
    values: tuple[object, ...] = ([], 5, "text", None, True)
    params: list[dict[str, object]] = [{}, *({"params": value} for value in values)]
    return [
        json.dumps({"jsonrpc": "2.0", "id": f"killer-{method}-{number}", "method": method, **given})
        for method in methods
        for number, given in enumerate(params)
    ]


def cancelled(method: str, params: object) -> list[str]:
    """A request that may take long, and its cancel in MCP, twice; then one of a request that never was."""
    ids = ("killer", "killer", "never-sent", 987_654)
    cancels = [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}} for name in ids]
    return [
        json.dumps({"jsonrpc": "2.0", "id": "killer", "method": method, "params": params}),
        *map(json.dumps, cancels),
    ]
