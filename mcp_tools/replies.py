"""What a call is answered: one block of text, its first line the facts, and the same facts for programs in `_meta`.

Pure. The render is in the text once, and nowhere else: hosts show their models `structuredContent` in its place where
it is there, as JSON that costs more tokens. So that is for programs, which ask for it on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from engine import cut_line, legible_line

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Display, HandleRow

_OURS: Final = "rewindow/"
"""What our keys in `_meta` begin with."""
HANDLE: Final = f"{_OURS}handle"
CURSOR: Final = f"{_OURS}cursor"
STATEMENT: Final = f"{_OURS}statement"
STATUS: Final = f"{_OURS}status"
BRANCH: Final = f"{_OURS}branch"
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
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
"""What each of our keys holds, as JSON Schema."""
_ASKED_CHARS: Final = 60
_TITLE_CHARS: Final = 200


class Reply(Struct, frozen=True, kw_only=True):
    """An answer, or with `is_error` one sentence that says what would work."""

    text: str
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def structured(self) -> dict[str, Any]:
        """All of it for programs, as `output_schema` has it."""
        return {"text": self.text, **{key.removeprefix(_OURS): value for key, value in self.meta.items()}}


def output_schema(keys: Iterable[str]) -> dict[str, Any]:
    """The JSON Schema of `Reply.structured`, for replies with these keys in `_meta`, or some of them."""
    properties = {"text": _TEXT, **{key.removeprefix(_OURS): _TYPES[key] for key in keys}}
    return {"type": "object", "properties": properties, "required": ["text"], "additionalProperties": False}


def handle_reply(name: str, display: Display, statement: int | None = None, asked: str = "") -> Reply:
    """What a handle shows, under its facts; `statement` is the number of the one that showed it, `asked` what the
    client calls it."""
    called = f"{name} ({cut_line(legible_line(asked), _ASKED_CHARS)})" if asked not in ("", name) else name
    return Reply(
        text=f"{_facts(called, display, statement)}\n{display.text}", meta={HANDLE: _meta(name, display, statement)}
    )


def _facts(name: str, display: Display, statement: int | None) -> str:
    """`cfg  pyproject.toml  lines 1-38 of 212  398/400 tokens  lod 0  follows  statement 7`."""
    lines = ""
    if display.first_line is not None:
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
        "firstLine": display.first_line,
        "lastLine": display.last_line,
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
    """A handle in a list, on one line: its facts without the lines it shows."""
    parts = (
        row.name,
        row.obj_type,
        cut_line(row.title, _TITLE_CHARS),
        f"{row.used_tokens}/{row.tokens or 'all'} tokens",
        f"lod {row.lod}",
        "follows" if row.freq and not row.idle else "",
    )
    return "  ".join(filter(None, parts))
