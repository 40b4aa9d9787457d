"""Globs of file names, as `grep` and `find` take them: parsed once, for ripgrep and for Python.

A glob without a slash matches names in every directory below the searched one; with a slash it matches the path from
there, like a line of a `.gitignore`. `*` and `?` stop at a slash, `**` does not; `[a-z]`, `[!a-z]`, `{a,b}` and a
backslash are as in a shell. Pure. The ignore rules for ripgrep may match more than the glob, because its globs have
other exceptions; the regular expression decides.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from msgspec import Struct

from ..spellings import composed

MAX_CHARS: Final = 1_000
MAX_ALTERNATIVES: Final = 200
"""Largest number of globs that braces may expand to."""
_ALL: Final = ("*", "**", "/**", "/**/*")
"""Ignore rules that match every file."""
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9_.\-]+")
_ESCAPED: Final = re.compile(r"[\\\[\]^&~|]")
"""Characters that Python would interpret in a set."""
_CLASS: Final = re.compile(r"\[(?P<not>[!^]?)(?P<set>\]?[^\]]*)\]", re.DOTALL)


class Glob(Struct, frozen=True):
    """A parsed glob.

    `expression` matches a whole path, with `/`, from the searched directory, in the form of `composed`. `ignore_lines`
    are ignore rules that leave at least these files; none if they would leave all.
    """

    expression: str
    ignore_lines: tuple[str, ...]


def read_glob(text: str) -> Glob:
    """Parse a glob.

    Raises:
        ValueError: it is empty, leads out of the directory, or is incomplete; the message says what to write.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"a glob may have at most {MAX_CHARS} characters; this one has {len(text)}")
    pairs = [_translated(_checked(alternative, text)) for alternative in alternatives(composed(text))]
    expression = "(?s:" + "|".join(expression for expression, _ in pairs) + ")"
    try:
        re.compile(expression)
    except re.error as error:
        raise ValueError(f"the glob {text!r} cannot be read: {error.msg}") from None
    if any(line in _ALL for _, line in pairs):
        return Glob(expression, ())
    return Glob(expression, ("*", "!*/", *(f"!{line}" for _, line in pairs)))


def _checked(alternative: str, text: str) -> str:
    if alternative.startswith(("/", "~")) or ".." in alternative.split("/"):
        raise ValueError(f"the glob {text!r} must stay below `path`; give the directory as `path`")
    if not alternative.strip("./"):
        raise ValueError(f"the glob {text!r} is empty; '*' matches every file")
    return alternative + "**" if alternative.endswith("/") else alternative


def alternatives(text: str) -> list[str]:
    """Expand braces. Raises ValueError if braces are incomplete."""
    found = _brace(text)
    if found is None:
        return [text]
    start, parts, end = found
    made: list[str] = []
    for part in parts:
        made += alternatives(text[:start] + part + text[end:])
        if len(made) > MAX_ALTERNATIVES:
            raise ValueError(f"the braces of a glob may expand to at most {MAX_ALTERNATIVES} alternatives")
    return made


def _brace(text: str) -> tuple[int, list[str], int] | None:
    """Find the first pair of braces: its start, its parts, its end.

    Commas in inner braces do not divide it.
    """
    start, depth, parts, at = -1, 0, [], 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "[" and (found := _CLASS.match(text, at)):
            at = found.end() - 1
        elif char == "{":
            depth += 1
            if depth == 1:
                start, parts = at, [at]
        elif depth and char == "," and depth == 1:
            parts.append(at)
        elif depth and char == "}":
            depth -= 1
            if depth == 0:
                return start, [text[left + 1 : right] for left, right in pairwise([*parts, at])], at + 1
        at += 1
    if depth:
        raise ValueError(f"the glob {text!r} has a {{ without a }}; to match the character {{, write [{{]")
    return None


def _translated(glob: str) -> tuple[str, str]:
    """Return the glob as a regular expression and as a line of ignore rules.

    Matching takes time linear in glob and path, because a host does it: between two `**` there is a fixed number of
    segments, and between two `*` a fixed number of characters, so the first place where such a piece matches is as good
    as any later one. An atomic group takes the first and never backtracks.
    """
    deep = "/" not in glob
    segments = [segment for segment in glob.split("/") if segment not in ("", ".")]
    pieces: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            pieces.append([])
        else:
            pieces[-1].append(segment)
    if deep and len(pieces) == 1:
        pieces.insert(0, [])
    *before, final = ["/".join(map(_expression, piece)) for piece in pieces]
    parts: list[str] = []
    for number, piece in enumerate(before):
        if piece:
            parts.append(f"(?>(?:[^/]*/)*?{piece}/)" if number else f"{piece}/")
    parts.append(f"(?:[^/]*/)*{final or '[^/]+'}" if before else final)
    line = "/".join("**" if segment == "**" else as_ignore_rule(segment) for segment in segments)
    return "".join(parts), line if deep else f"/{line}"


def _expression(segment: str) -> str:
    first, *others = ("".join(literals) for literals in _runs(segment))
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>[^/]*?{run})" for run in between if run) + f"[^/]*{last}"


def _runs(segment: str) -> list[list[str]]:
    """Split a segment at its stars.

    Each character becomes its regular expression.
    """
    runs: list[list[str]] = [[]]
    at = 0
    while at < len(segment):
        char = segment[at]
        at += 1
        if char == "*":
            runs.append([])
        elif char == "?":
            runs[-1].append("[^/]")
        elif char == "[":
            found = _CLASS.match(segment, at - 1)
            if found is None:
                raise ValueError(f"the glob has a [ without a ] in {segment!r}; to match the character [, write [[]")
            runs[-1].append(f"(?!/)[{'^' if found['not'] else ''}{_ESCAPED.sub(_backslash, found['set'])}]")
            at = found.end()
        elif char == "\\":
            if at == len(segment):
                raise ValueError(
                    f"the glob ends in a backslash in {segment!r}; write two backslashes for the character itself"
                )
            runs[-1].append(re.escape(segment[at]))
            at += 1
        else:
            runs[-1].append(re.escape(char))
    return runs


def _backslash(found: re.Match[str]) -> str:
    return "\\" + found[0]


def as_ignore_rule(segment: str) -> str:
    """Return a name, or a part of a glob, with a star for all that ripgrep may interpret differently."""
    return _NO_WORD.sub("*", _CLASS.sub("*", segment))
