"""The first inputs of each target, from which changes start: what real peers and programs send."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from engine.log.events.codec import encode as encode_event
from engine.runtime.worker.framing import frame
from engine.runtime.worker.protocol import Died, Finished, Forked, Paused
from tests.support.foreign import DATA
from tests.support.hostile import Session
from tests.support.rich_log import events_of, rich_items

_TEXT: Final = {"type": "text", "text": "Hi"}
_PARAMS: Final[tuple[Any, ...]] = (
    {"sessionId": "s", "prompt": [_TEXT, {"type": "resource_link", "name": "a", "uri": "file:///a.py#L3"}]},
    {"cwd": "/work", "mcpServers": [{"name": "m", "command": "/bin/m", "args": ["-v"], "env": []}]},
    {"cwd": "/work", "mcpServers": [{"type": "http", "name": "m", "url": "http://x/", "headers": []}]},
    {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}}},
    {"sessionId": "s", "modeId": "auto", "configId": "model", "value": "x"},
    {"sessionId": "s", "cursor": "c", "cwd": "/work", "_meta": {"rewindow": {"promptKind": "steer"}}},
)
_ARGUMENTS: Final[tuple[Any, ...]] = (
    {"name": "a", "path": "a.py", "pos": 3, "scroll": -2, "tokens": 400, "lod": 1, "follow": True, "close": False},
    {"name": "g", "add": ["*.py", "a"], "remove": ["b"], "tokens": 1, "lod": 0},
    {"since": 0, "wait": 0.5, "tokens": 10},
    {"code": "1 + 1", "seconds": 3, "from": 1, "to": 2, "mode": "dry", "files": True, "statement": 1},
    "view://a",
    "changes://3",
)
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "p", "default": "a", "minLength": 1, "maxLength": 9},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 0},
        "sort": {"type": "string", "enum": ["up", "down"]},
        "class": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        "sure": {"type": "boolean", "title": "Sure?"},
    },
    "required": ["path"],
    "additionalProperties": False,
}
_OFFER: Final = {
    "tools": [{"name": "read-file", "description": "Reads.", "inputSchema": _SCHEMA}, {"name": "read_file"}],
    "resources": [{"uri": "test://a", "name": "a", "description": "b"}],
    "prompts": [{"name": "p", "description": "d", "arguments": [{"name": "a", "required": True}, {"name": "b"}]}],
    "messages": [
        {"role": "user", "content": _TEXT},
        {"role": "assistant", "content": {"type": "resource", "resource": {"uri": "test://a", "text": "t"}}},
        {"role": "user", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}},
    ],
    "instructions": "Use it.",
    "path": "a",
}
_MESSAGES: Final = (Forked(pid=3), Died(wait_status=9, reason="r"), Finished(wait_status=0), Paused(seconds=0.1))


def seeds(target: str) -> list[bytes]:
    """Return the first inputs of the target."""
    return _SEEDS[target]()


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _jsonrpc() -> list[bytes]:
    messages = [
        *({"jsonrpc": "2.0", "id": n, "method": "session/prompt", "params": each} for n, each in enumerate(_PARAMS)),
        {"jsonrpc": "2.0", "id": "a", "result": {"outcome": {"outcome": "selected", "optionId": "b"}}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "\ud800", "data": [1e300, 2**70]}},
    ]
    return [b"\n".join(map(_dumped, messages)) + b"\n", b"\xef\xbb\xbf[]\r\n\r\n{}", b'[{"a": NaN}]\n"\\udc00"']


def _with_first(values: tuple[Any, ...]) -> list[bytes]:
    return [bytes([number]) + _dumped(value) for number in range(64) for value in values[number % len(values) :][:1]]


def _session_files() -> list[bytes]:
    session = Session(Path("/work"))
    lines = session.file().splitlines(keepends=True)
    files: list[bytes] = []
    # A file of each length has other events at its end, and a small one is changed more often where it matters.
    for size in (1, 3, 10, 40):
        header = {**json.loads(lines[0]), "events": size}
        files.append(_dumped(header) + b"\n" + b"".join(lines[1 : size + 1]))
    return files


def _foreign() -> list[bytes]:
    return [path.read_bytes() for path in sorted(DATA.iterdir()) if path.stat().st_size < 1 << 14]


def _frames() -> list[bytes]:
    events = [encode_event(event) for event in events_of(rich_items())[:12]]
    return [*(b"\0" + event for event in events), *map(frame, _MESSAGES)]


_SEEDS: Final[dict[str, Callable[[], list[bytes]]]] = {
    "jsonrpc": _jsonrpc,
    "mcp-params": lambda: _with_first(_ARGUMENTS),
    "session-file": _session_files,
    "schemas": lambda: [_dumped(_OFFER)],
    "acp-params": lambda: _with_first(_PARAMS),
    "foreign": _foreign,
    "worker-frames": _frames,
    "diffs": lambda: [b"a\nb\nc\n\0a\nx\nc\n", "def f():\n  a\n  b\n\0def f():\n  b\n\u202ec".encode()],
    "gitignore": lambda: [b"*.py\n!a.py\n/b/**/c\n[a-z]?\\*\n#c\nd/ \n", b"**/[!a]{b,c}/**\n[[:alpha:]]\n"],
    "ripgrep": lambda: [
        b"./a.py\x001:one\n2-two\n--\n9:nine\n\n./b.py\x003:x\n\n",
        b"./a\x00./b\x00",
        b"rg: ./a: Permission denied (os error 13)\nrg: regex parse error:\n(\n^\n",
    ],
}
