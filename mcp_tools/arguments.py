"""The arguments of a tool's call, held to the schema that its clients were given, with sentences for what is wrong.

Covers what the schemas here use of JSON Schema: types, bounds, lengths. Pure. Called by `server` ahead of every tool.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from engine import cut_line

Schema = Mapping[str, Any]
_SHOWN_CHARS: Final = 60
_LARGEST: Final = 2**53 - 1
"""Of whole numbers: programs disagree about larger ones (RFC 8259, section 6); Python does not write the longest."""
_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "number": (float, "a number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
}


class ArgumentError(Exception):
    """Raised for arguments that the client has to change; the message is the sentence for it."""


def checked(tool: str, schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, as the schema allows them; null counts as left out.

    Raises:
        ArgumentError: one is unknown, missing, or not as the schema says.
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
    meant = f" Did you mean `{close[0]}`?" if close else ""
    named = ", ".join(known) or "none"
    return f"{tool} has no argument `{cut_line(name, _SHOWN_CHARS)}`; it takes {named}.{meant}"


def _check(name: str, value: object, schema: Schema) -> None:
    branches = branches_of(schema)
    fitting = next((each for each in branches if _is(value, each["type"])), None)
    if fitting is None:
        wanted = " or ".join(_TYPES[each["type"]][1] for each in branches)
        raise ArgumentError(f"`{name}` is {wanted}, not {_shown(value)}.")
    if isinstance(value, str):
        _check_length(name, len(value), "characters", fitting.get("minLength", 0), fitting.get("maxLength"))
    elif isinstance(value, list):
        entries = cast("list[object]", value)
        _check_length(name, len(entries), "entries", fitting.get("minItems", 0), fitting.get("maxItems"))
        for position, entry in enumerate(entries, 1):
            _check(f"{name}[{position}]", entry, fitting["items"])
    elif not isinstance(value, bool):
        _check_finite(name, value)
        _check_range(name, value, fitting)


def branches_of(schema: Schema) -> Sequence[Schema]:
    """The schemas that a value may be of, each of a single type: clients know no others, or map them to such."""
    return schema.get("anyOf", (schema,))


def _is(value: object, named: str) -> bool:
    kind = _TYPES[named][0]
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


def _check_length(name: str, length: int, unit: str, least: int, most: int | None) -> None:
    if length < least:
        raise ArgumentError(f"`{name}` is empty." if not length else f"`{name}` has at least {least:,} {unit}.")
    if most is not None and length > most:
        raise ArgumentError(f"`{name}` has at most {most:,} {unit}, not {length:,}.")


def _check_finite(name: str, value: Any) -> None:
    # JSON has no NaN, but some write it and it passes every bound, because it compares as false with all of them.
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ArgumentError(f"`{name}` is a whole number from {-_LARGEST:,} to {_LARGEST:,}.")
    if math.isnan(value):
        raise ArgumentError(f"`{name}` is a number, not NaN.")


def _check_range(name: str, value: Any, schema: Schema) -> None:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = f"from {least:,} to {most:,}" if most is not None else f"at least {least:,}"
        raise ArgumentError(f"`{name}` is {bounds}, not {_shown(value)}.")


def _shown(value: object) -> str:
    return cut_line(repr(value), _SHOWN_CHARS)
