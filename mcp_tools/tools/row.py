"""What all tools have: a name and words for models, the schema of the arguments, and what a call does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from mcp_tools.replies import Reply

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Progress
    from mcp_tools.bench import Bench

TOKENS: Final = {"type": "integer", "minimum": 1, "maximum": 20_000}
"""A budget."""
LOD: Final = {"type": "integer", "minimum": 0, "maximum": 3}
NAME: Final = {"type": "string", "pattern": "[A-Za-z0-9]"}
PATH_CHARS: Final = 4096
Report = Callable[["Progress"], Awaitable[None]]
"""Tells the client how far a call is."""
Call = Callable[["Bench", Mapping[str, Any], Report], Awaitable[Reply]]


class ToolRow(Struct, frozen=True, kw_only=True):
    """One tool. `call` is given arguments that `schema` allows; `title` is for people, `description` for models.

    `facts` are the keys that its replies may have in `_meta`; `takes_long` says of a call's arguments, which may be
    anything yet, whether it may last longer than a client likes to wait.
    """

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    call: Call
    facts: tuple[str, ...] = ()
    takes_long: Callable[[Mapping[str, Any]], bool] = lambda _: False
    destructive: bool = False
    read_only: bool = False


def schema(properties: Mapping[str, Mapping[str, Any]], *required: str) -> Mapping[str, Any]:
    """The JSON Schema of an object with these properties and no others."""
    made: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**made, "required": list(required)} if required else made


def described(words: str, kind: Mapping[str, Any]) -> Mapping[str, Any]:
    """A property: what it is, in words, and what it may be."""
    return {**kind, "description": words}
