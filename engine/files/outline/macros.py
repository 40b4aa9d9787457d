"""Macros of C and C++ that stand where their grammars know no word, put out of sight before a text is parsed.

`class API_EXPORT Name {` is an error to a grammar, which has no preprocessor, and the class is lost. Nearly all of
these are names in capitals, in three places: between `class` and its name, in front of a declaration, and alone on a
line that begins at the margin. Each is replaced by as many blanks, so every other letter stays in its place. Pure.
Called by `grammars`.
"""

from __future__ import annotations

import re
from typing import Final

LANGUAGES: Final = frozenset({"c", "cpp"})
_MACRO: Final = rb"[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?"
_WHERE: Final = (
    re.compile(
        rb"\b(?:class|struct|union|enum)[ \t]+(" + _MACRO + rb")(?=[ \t]+[A-Za-z_][\w:<>]*(?:[ \t]+final)?\s*[:{])"
    ),
    re.compile(
        rb"^[ \t]*(" + _MACRO + rb")(?=[ \t]+[A-Za-z_][\w:<>]*(?:[ \t]+|[ \t]*[*&]+[ \t]*)[A-Za-z_]\w*[ \t]*\()", re.M
    ),
    re.compile(rb"^([A-Z][A-Z0-9_]{3,})[ \t]*$", re.M),
)


def without_macros(source: bytes, language: str) -> bytes:
    """The text as the grammar of that language is to see it: as long as it was, and the lines where they were."""
    if language in LANGUAGES:
        for where in _WHERE:
            source = where.sub(_blanked, source)
    return source


def _blanked(found: re.Match[bytes]) -> bytes:
    start, end = found.span(1)
    before, after = start - found.start(), end - found.start()
    return found[0][:before] + b" " * (end - start) + found[0][after:]
