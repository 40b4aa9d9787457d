"""The tool `python`, with which a model asks for a statement: its definition, and what a call of it means.

A call that cannot be run becomes a refusal that the model reads. Models without tools write their statements instead
(`written_replies`). Pure. Used by `provider_stream`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.text import cut_line
from ..model import CallRefused, StatementAsked
from ..tail.results import STATEMENT_TOOL

DESCRIPTION: Final = (
    "Runs one cell of Python in the session's live namespace, and returns its output, values and exception. "
    "Names stay defined between calls. Make one call in a reply."
)
PARAMETERS: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"source": {"type": "string", "description": "the cell, as Python source"}},
    "required": ["source"],
    "additionalProperties": False,
}
_SHOWN: Final = 200
_LONGEST: Final = 2_000
_INVALID: Final = "invalid"
WRONG_ARGUMENTS: Final = 'this call was not run: its arguments must be {"source": "<a cell of Python>"}'
ONE_CALL: Final = "this call was not run: a reply may have one call; make it again in the next reply"


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str


def read_call(tool: str, arguments: str | dict[str, object] | None, call: str | None) -> StatementAsked | CallRefused:
    """Read a call, given its arguments as a JSON text or an object, and its id."""
    if tool != STATEMENT_TOOL:
        return _refused(tool, arguments, unknown_tool(tool), call)
    try:
        if isinstance(arguments, str):
            read = msgspec.json.decode(arguments, type=_Arguments)
        else:
            read = msgspec.convert(arguments or {}, _Arguments)
    except (msgspec.MsgspecError, UnicodeError) as error:
        return _refused(tool, arguments, f"{WRONG_ARGUMENTS}: {error}", call)
    return StatementAsked(read.source, call)


def unknown_tool(tool: str) -> str:
    """Say that there is no tool of this name."""
    return f"there is no tool {cut_line(tool, _SHOWN)!r}; call {STATEMENT_TOOL!r} with a cell of Python as `source`"


def _refused(tool: str, arguments: str | dict[str, object] | None, reason: str, call: str | None) -> CallRefused:
    if isinstance(arguments, str):
        # Providers take an object only, so the model reads an invalid text as the value of one.
        try:
            given = msgspec.json.decode(arguments, type=dict[str, object])
        except (msgspec.MsgspecError, UnicodeError):
            given = dict[str, object]({_INVALID: cut_line(arguments, _LONGEST)})
    else:
        given = arguments or {}
    return CallRefused(tool, given, reason, call)
