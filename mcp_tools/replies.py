"""What a call returns: one block of text, whose first line has the facts, and the same facts in `_meta` for programs.

Pure. The rendered text is sent once. `structuredContent` would make hosts show their models JSON instead of text, at a
higher cost in tokens; therefore it is for programs, and the command line turns it on. Used by the tools, by `resources`
and by `requests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from engine.core.levels import OUTLINED
from engine.core.text import cut_line, legible_line

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import Display, HandleRow

_PREFIX: Final = "rewindow/"
"""Prefix of our keys in `_meta`."""
HANDLE: Final = f"{_PREFIX}handle"
CURSOR: Final = f"{_PREFIX}cursor"
STATEMENT: Final = f"{_PREFIX}statement"
STATUS: Final = f"{_PREFIX}status"
BRANCH: Final = f"{_PREFIX}branch"
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    HANDLE: {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "id": _TEXT,
            "title": _TEXT,
            "firstLine": _NUMBER,
            "lastLine": _NUMBER,
            "lines": _NUMBER,
            "tokens": _NUMBER,
            "budget": _NUMBER,
            "lod": _NUMBER,
            "follows": {"type": "boolean"},
            "revision": _TEXT,
            "statement": _NUMBER,
        },
        "required": ["name", "id", "title", "tokens", "lod", "follows"],
        "additionalProperties": False,
    },
    CURSOR: _NUMBER,
    STATEMENT: _NUMBER,
    STATUS: _TEXT,
    BRANCH: _TEXT,
}
"""JSON Schema of the value of each key."""
_ALIAS_CHARS: Final = 60
_TITLE_CHARS: Final = 200


class CallError(Exception):
    """Raised when a call fails; the message is the sentence that the client's model reads."""


class ArgumentError(CallError):
    """Raised for invalid arguments; the message says what is valid."""


class Reply(Struct, frozen=True, kw_only=True):
    """The result of a call, or with `is_error` one sentence that says what would work."""

    text: str
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def structured(self) -> dict[str, Any]:
        """The whole reply as JSON for programs; `output_schema` describes it."""
        return {"text": self.text, **{key.removeprefix(_PREFIX): value for key, value in self.meta.items()}}


def output_schema(keys: Iterable[str]) -> dict[str, Any]:
    """The JSON Schema of `Reply.structured`, for replies with some or all of these keys in `_meta`."""
    properties = {"text": _TEXT, **{key.removeprefix(_PREFIX): _SCHEMAS[key] for key in keys}}
    return {"type": "object", "properties": properties, "required": ["text"], "additionalProperties": False}


def handle_reply(name: str, display: Display, statement: int | None = None, alias: str = "") -> Reply:
    """Reply with a handle's content, below its facts.

    Args:
        name: the handle's identifier.
        display: its content.
        statement: number of the statement that showed it; None for a read.
        alias: the client's own name for the handle.
    """
    shown = f"{name} ({cut_line(legible_line(alias), _ALIAS_CHARS)})" if alias not in ("", name) else name
    return Reply(
        text=f"{_facts(shown, display, statement)}\n{display.text}", meta={HANDLE: _meta(name, display, statement)}
    )


def _facts(name: str, display: Display, statement: int | None) -> str:
    """`cfg  pyproject.toml  lines 1-38 of 212  398/400 tokens  lod 0  follows  statement 7`."""
    lines = ""
    if display.lod in OUTLINED:
        lines = {0: "", 1: "1 line"}.get(display.lines, f"{display.lines} lines")
    elif display.first_line is not None:
        lines = f"lines {display.first_line}-{display.last_line} of {display.lines}"
    parts = (
        name,
        cut_line(display.title, _TITLE_CHARS),
        lines,
        f"{display.tokens}/{display.budget or 'all'} tokens",
        f"lod {display.lod}",
        "follows" if display.freq else "",
        "" if statement is None else f"statement {statement}",
    )
    return "  ".join(filter(None, parts))


def _meta(name: str, display: Display, statement: int | None) -> dict[str, Any]:
    facts = {
        "name": name,
        "id": display.obj_id,
        "title": display.title,
        "firstLine": None if display.lod in OUTLINED else display.first_line,
        "lastLine": None if display.lod in OUTLINED else display.last_line,
        "lines": display.lines or None,
        "tokens": display.tokens,
        "budget": display.budget or None,
        "lod": display.lod,
        "follows": bool(display.freq),
        "revision": display.revision or None,
        "statement": statement,
    }
    return {key: value for key, value in facts.items() if value is not None}


def row_line(row: HandleRow) -> str:
    """One line about a handle, for a list: its facts without line numbers."""
    parts = (
        row.name,
        row.obj_type,
        cut_line(row.title, _TITLE_CHARS),
        f"{row.used_tokens}/{row.tokens or 'all'} tokens",
        f"lod {row.lod}",
        "follows" if row.freq and not row.idle else "",
    )
    return "  ".join(filter(None, parts))
