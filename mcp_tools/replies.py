"""What a call is answered: one block of text, its first line the facts, and the same facts for programs in `_meta`.

Pure. The render is in the text once, and nowhere else: hosts show their models `structuredContent` in its place where
it is there, as JSON that costs more tokens.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from engine import Display, HandleRow, cut_line

HANDLE: Final = "rewindow/handle"
"""The key of the facts of one handle in `_meta`."""
CURSOR: Final = "rewindow/cursor"
_TITLE_CHARS: Final = 200


class Reply(Struct, frozen=True, kw_only=True):
    """An answer, or with `is_error` one sentence that says what would work."""

    text: str
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])


def handle_reply(name: str, display: Display, statement: int | None = None) -> Reply:
    """What a handle shows, under its facts; `statement` is the number of the one that showed it."""
    return Reply(
        text=f"{_facts(name, display, statement)}\n{display.text}", meta={HANDLE: _meta(name, display, statement)}
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
        "follows" if row.freq else "",
    )
    return "  ".join(filter(None, parts))
