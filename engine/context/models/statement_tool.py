"""The one tool that a language model has, and what its calls mean.

Owns the tool's parameter and how a call becomes a statement. Must not know any provider. Called by the
provider model.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.cutting import cut_line
from ..tail.written import STATEMENT_TOOL

DESCRIPTION: Final = (
    "Runs one cell of Python in the session's live namespace and returns what it printed, displayed and raised. "
    "Names stay defined from one call to the next. One call in a reply."
)
PARAMETERS: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"source": {"type": "string", "description": "the cell, as Python source"}},
    "required": ["source"],
    "additionalProperties": False,
}
_SHOWN: Final = 200


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str


def source_of(tool: str, arguments: str | dict[str, object] | None) -> str:
    """The cell that a call asks for, given its arguments as a JSON text or as an object.

    A call that cannot be understood becomes a cell that raises what is wrong with it: the model reads its own mistake
    in the result, as it does for every other mistake of its, and the provider sees each call answered.
    """
    if tool != STATEMENT_TOOL:
        return raising(NameError, f"there is no tool {tool!r}; call {STATEMENT_TOOL!r} with a cell as `source`")
    try:
        if isinstance(arguments, str):
            return msgspec.json.decode(arguments, type=_Arguments).source
        return msgspec.convert(arguments or {}, _Arguments).source
    except (msgspec.MsgspecError, UnicodeError) as error:
        given = arguments if isinstance(arguments, str) else repr(arguments)
        return raising(
            TypeError, f'arguments must be {{"source": "<a cell of Python>"}}; {error}: {cut_line(given, _SHOWN)}'
        )


def raising(kind: type[Exception], message: str) -> str:
    """The cell that a model gets to read where there is nothing else to run."""
    return f"raise {kind.__name__}({message!r})"
