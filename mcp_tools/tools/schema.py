"""What all tools share: the row that describes a tool, the schemas of arguments, and the check against a schema.

The check covers the part of JSON Schema that our tools use: types, bounds, lengths. It explains each error in a
sentence for the client's model. Pure. Rows are written by the tool modules. `requests` calls `check_arguments` before
each tool.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from engine.core.levels import LEVELS_OF_DETAIL
from engine.core.text import cut_line
from mcp_tools.replies import ArgumentError, Reply

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import Progress
    from mcp_tools.client_session import ClientSession

Schema = Mapping[str, Any]
TOKENS: Final = {"type": "integer", "minimum": 1, "maximum": 20_000}
"""A token budget."""
LOD: Final = {"type": "integer", "minimum": 0, "maximum": len(LEVELS_OF_DETAIL) - 1}
NAME: Final = {"type": "string", "pattern": "[A-Za-z0-9]"}
MAX_PATH_CHARS: Final = 4096
ProgressReporter = Callable[["Progress"], Awaitable[None]]
"""Sends the client the progress of a call."""
Call = Callable[["ClientSession", Mapping[str, Any], ProgressReporter], Awaitable[Reply]]
_SHOWN_CHARS: Final = 60
_MAX_INTEGER: Final = 2**53 - 1
"""Programs disagree about larger integers (RFC 8259, section 6), and Python refuses to print very long ones."""
_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "string": (str, "a string"),
    "integer": (int, "an integer"),
    "number": (float, "a number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
}


class ToolRow(Struct, frozen=True, kw_only=True):
    """One tool. `title` is for people, `description` for models.

    `call` gets arguments that passed the check against `schema`. `meta_keys` are the keys that replies may have in
    `_meta`. `takes_long` gets unchecked arguments, and says whether the call may outlast a client's timeout.
    """

    name: str
    title: str
    description: str
    schema: Schema
    call: Call
    meta_keys: tuple[str, ...] = ()
    takes_long: Callable[[Mapping[str, Any]], bool] = lambda _: False
    destructive: bool = False
    read_only: bool = False


def schema(properties: Mapping[str, Schema], *required: str) -> Schema:
    """The JSON Schema of an object with only these properties."""
    made: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**made, "required": list(required)} if required else made


def described(words: str, kind: Schema) -> Schema:
    """Add a description to the schema of a property."""
    return {**kind, "description": words}


def branches_of(schema: Schema) -> Sequence[Schema]:
    """The alternatives of a schema, each with a single type: clients do not support lists of types."""
    return schema.get("anyOf", (schema,))


# --- check ------------------------------------------------------------------------------------------------------------


def check_arguments(tool: str, schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without nulls, after checking them against the schema.

    Raises:
        ArgumentError: an argument is unknown, missing or invalid.
    """
    properties: Mapping[str, Schema] = schema["properties"]
    arguments = {name: value for name, value in given.items() if value is not None}
    for name, value in arguments.items():
        if name not in properties:
            raise ArgumentError(_unknown(tool, name, list(properties)))
        _check(name, value, properties[name])
    for name in schema.get("required", ()):
        if name not in arguments:
            raise ArgumentError(f"{tool} needs `{name}`: {properties[name]['description']}.")
    return arguments


def _unknown(tool: str, name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    hint = f" Did you mean `{close[0]}`?" if close else ""
    names = ", ".join(known) or "none"
    return f"{tool} has no argument `{cut_line(name, _SHOWN_CHARS)}`; the arguments are {names}.{hint}"


def _check(name: str, value: object, schema: Schema) -> None:
    branches = branches_of(schema)
    match = next((each for each in branches if _has_type(value, each["type"])), None)
    if match is None:
        expected = " or ".join(_TYPES[each["type"]][1] for each in branches)
        raise ArgumentError(f"`{name}` must be {expected}, not {_shown(value)}.")
    if isinstance(value, str):
        _check_length(name, len(value), "characters", match.get("minLength", 0), match.get("maxLength"))
    elif isinstance(value, list):
        entries = cast("list[object]", value)
        _check_length(name, len(entries), "entries", match.get("minItems", 0), match.get("maxItems"))
        for position, entry in enumerate(entries, 1):
            _check(f"{name}[{position}]", entry, match["items"])
    elif not isinstance(value, bool):
        _check_finite(name, value)
        _check_range(name, value, match)


def _has_type(value: object, type_name: str) -> bool:
    kind = _TYPES[type_name][0]
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


def _check_length(name: str, length: int, unit: str, least: int, most: int | None) -> None:
    if length < least:
        raise ArgumentError(f"`{name}` is empty." if not length else f"`{name}` needs at least {least:,} {unit}.")
    if most is not None and length > most:
        raise ArgumentError(f"`{name}` may have at most {most:,} {unit}, not {length:,}.")


def _check_finite(name: str, value: Any) -> None:
    # JSON has no NaN, but some programs write it. It would pass every bound, because all its comparisons are false.
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        raise ArgumentError(f"`{name}` must be an integer from {-_MAX_INTEGER:,} to {_MAX_INTEGER:,}.")
    if math.isnan(value):
        raise ArgumentError(f"`{name}` must be a number, not NaN.")


def _check_range(name: str, value: Any, schema: Schema) -> None:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = f"from {least:,} to {most:,}" if most is not None else f"at least {least:,}"
        raise ArgumentError(f"`{name}` must be {bounds}, not {_shown(value)}.")


def _shown(value: object) -> str:
    return cut_line(repr(value), _SHOWN_CHARS)
