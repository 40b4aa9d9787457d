"""A bug for each target, which a run must find: `plant` breaks the parser in this process.

Each one needs an input that no seed has, and that chance alone hardly makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from acp_adapter import v1, v2
from acp_adapter.jsonrpc.lines import LineDecoder
from engine.cli.transfer import jsonl, messages
from engine.core import diff
from engine.files.search import commands, ignore_files
from engine.session.tools import mcp_listing
from tests.fuzz import targets


def plant(target: str) -> None:
    """Break the parser of the target."""
    PLANTED[target]()


def _instead(holder: Any, name: str, wrong: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    setattr(holder, name, wrong(getattr(holder, name)))


def _jsonrpc() -> None:
    def wrong(finish: Callable[..., Any]) -> Callable[..., Any]:
        def finished(self: LineDecoder, frames: list[Any]) -> None:
            pieces = self._pieces
            if len(pieces) == 2 and pieces[0].endswith(b"\r"):
                pieces[0] = pieces[0][:-1]
            finish(self, frames)

        return finished

    _instead(LineDecoder, "_finish", wrong)


def _mcp_params() -> None:
    def wrong(check: Callable[..., Any]) -> Callable[..., Any]:
        return lambda tool, schema, given: (
            dict(given) if isinstance(given.get("lod"), int) and given["lod"] == 9 else check(tool, schema, given)
        )

    _instead(targets, "check_arguments", wrong)


def _session_file() -> None:
    # Titles of any type are taken.
    jsonl._TYPES = tuple(row for row in jsonl._TYPES if row[0] != "title")


def _schemas() -> None:
    # Lists are believed to be lists.
    mcp_listing._list = lambda value: value or []


def _acp_params() -> None:
    def wrong(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(method: str, params: Any) -> Any:
            if isinstance(params, dict) and isinstance(params.get("sessionId"), list):
                raise KeyError(method)
            return read(method, params)

        return reading

    for version in (v1, v2):
        _instead(version, "read_params", wrong)


def _foreign() -> None:
    def wrong(text_of: Callable[..., Any]) -> Callable[..., Any]:
        return lambda part, report: text_of(part, report)[0] and text_of(part, report)

    _instead(messages, "text_of", wrong)


def _worker_frames() -> None:
    def wrong(decode: Callable[..., Any]) -> Callable[..., Any]:
        def decoding(decoder: Any, body: bytes) -> Any:
            found = decode(decoder, body)
            if getattr(found, "wait_status", 0) not in (0, 9):
                raise IndexError(found.wait_status)
            return found

        return decoding

    _instead(targets.framing, "decode", wrong)


def _diffs() -> None:
    def wrong(trim: Callable[..., Any]) -> Callable[..., Any]:
        def trimmed(a: Any, b: Any, gap: Any) -> Any:
            front, inner, back = trim(a, b, gap)
            return front, inner, back._replace(b_start=back.b_start - 1) if back.size > 2 else back

        return trimmed

    _instead(diff, "_trim", wrong)


def _gitignore() -> None:
    def wrong(segment: Callable[..., Any]) -> Callable[..., Any]:
        return lambda text: segment(text)[1 << 20] if "[^" in text else segment(text)

    _instead(ignore_files, "_segment", wrong)


def _ripgrep() -> None:
    # Numbers of lines have one digit.
    commands._ROW = re.compile(rb"^(\d)([:-])([^\n]*?)\r?\n", re.MULTILINE)


PLANTED: Final[dict[str, Callable[[], None]]] = {
    "jsonrpc": _jsonrpc,
    "mcp-params": _mcp_params,
    "session-file": _session_file,
    "schemas": _schemas,
    "acp-params": _acp_params,
    "foreign": _foreign,
    "worker-frames": _worker_frames,
    "diffs": _diffs,
    "gitignore": _gitignore,
    "ripgrep": _ripgrep,
}
