"""Answers questions about neutral events on standard input and output, a JSON-RPC message on each line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

from ....core.installation import __version__
from .cycle_rows import model_of
from .view_rows import appended, ready

_NAME: Final = f"rewindow {__version__}"
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602

Rows = Sequence[dict[str, Any]]


OPERATIONS: Final[dict[str, Callable[[Rows], dict[str, Any]]]] = {
    "view.append": appended,
    "view.ready": ready,
    "cycles": model_of,
}


def vectors_adapter() -> None:
    """Answer the questions of `rewindow-conformance vectors` about this engine's View and request cycles."""
    for line in answers(sys.stdin):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def answers(lines: Iterable[str]) -> Iterator[str]:
    """An answer for each line, in JSON-RPC 2.0. A line that cannot be read is answered too."""
    for line in lines:
        if line.strip():
            yield json.dumps(_answer(line))


def _answer(line: str) -> dict[str, Any]:
    try:
        question = json.loads(line)
    except ValueError as error:
        return _refusal(None, _PARSE_ERROR, f"no JSON: {error}")
    if not isinstance(question, dict):
        return _refusal(None, _INVALID_REQUEST, "a question is an object")
    asked = cast("dict[str, Any]", question)
    number, operation = asked.get("id"), asked.get("method")
    if operation == "hello":
        return _result(number, {"name": _NAME, "operations": list(OPERATIONS)})
    if operation not in OPERATIONS:
        return _refusal(number, _METHOD_NOT_FOUND, f"there is no operation {operation!r}")
    try:
        return _result(number, OPERATIONS[operation](asked["params"]["events"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return _refusal(number, _INVALID_PARAMS, f"these events cannot be read: {type(error).__name__}: {error}")


def _result(number: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _refusal(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
