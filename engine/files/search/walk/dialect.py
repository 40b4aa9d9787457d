r"""Regular expressions as ripgrep accepts them (https://docs.rs/regex), for the library `regex`.

Version 1 of that library has nearly the same language: Unicode classes, nested sets, flags in the middle. Its
extensions (look-around, references, possessive repetition ...) are refused, so that an expression that works here works
with ripgrep too; so are those of newer versions of ripgrep (`\<`, `(?U)`, `\b{start}`). The remaining difference is
time: ripgrep's is linear in the text; here a search may not end, and then the process is ended.
"""

from __future__ import annotations

import re
from typing import Any, Final

import regex as untyped  # pyright: ignore[reportMissingTypeStubs] -- it has none

regex: Any = untyped

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_GROUP: Final = re.compile(r"\(\?(?:P?<(?P<name>[A-Za-z_][A-Za-z0-9_]*)>|[imsxu]*(?:-[imsx]+)?[:)])")
_AROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")
_REPETITION: Final = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})\??")
_ESCAPE: Final = re.compile(r"\\(?:[dDsSwWbBAznrtfva]|[pP](?:[A-Z]|\{[^}]*\}))")
_CODE: Final = re.compile(r"\\(?:[xuU]\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_TEXT_EDGE: Final = re.compile(r"\\[AZ]|\(\?[a-z]*-[a-z]*m")
_PREFIX: Final = "(?-f)"
"""Compare letters one by one, in any case."""
_CLASS_ESCAPE: Final = re.compile(r"\\[dDsSwWpP]")
_SET_BEGINNING: Final = re.compile(r"\[(\^?)(\]?)")
_CLASS_NAME: Final = re.compile(r"\[:(\^?)([a-z]+):\]")


_LINE_ENDS: Final = ("\\n", "\\r", "\\\n", "\\\r")
_LINE_BY_LINE: Final = "line ends are not allowed in a regex, because a search goes line by line"


class NotInDialectError(Exception):
    """Raised for an expression that ripgrep would refuse, or that only ripgrep knows. The message says why."""


def compiled(pattern: str) -> tuple[Any, bool]:
    """Compile an expression for a line.

    Return also whether it may be used on many lines at once.

    Raises:
        NotInDialectError: it is invalid, or not in the common language.
    """
    written = _Reader(pattern).written()
    try:
        expression: Any = regex.compile(f"{_PREFIX}{written}", regex.V1 | regex.MULTILINE)
    except regex.error as error:
        raise NotInDialectError(f"{error.msg} at position {(error.pos or 0) - len(_PREFIX)}") from None
    except (RecursionError, OverflowError, MemoryError) as error:
        raise NotInDialectError(f"it is too large: {error or type(error).__name__}") from None
    return expression, _TEXT_EDGE.search(written) is None


class _Reader:
    """One pass over a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._names: set[str] = set()

    def written(self) -> str:
        made: list[str] = []
        repeated = False
        while self._at < len(self._pattern):
            found = _REPETITION.match(self._pattern, self._at)
            if found is not None:
                if repeated:
                    raise NotInDialectError("a repetition of a repetition; put the inner one into a group: (?:a+)+")
                made.append(self._take(found))
                repeated = True
                continue
            repeated = False
            made.append(self._one())
        return "".join(made)

    def _take(self, found: re.Match[str]) -> str:
        self._at = found.end()
        return found[0]

    def _one(self) -> str:
        char = self._pattern[self._at]
        if char == "\\":
            made = self._escape()
            if made in _LINE_ENDS:
                raise NotInDialectError(_LINE_BY_LINE)
            return made
        if char == "[":
            return self._set()
        if self._pattern.startswith("(?", self._at):
            return self._group()
        if char == "{":
            raise NotInDialectError(r"a { must begin a count such as {2,3}; write \{ for the character itself")
        if char in "\r\n":
            raise NotInDialectError(_LINE_BY_LINE)
        self._at += 1
        return char

    def _group(self) -> str:
        found = _GROUP.match(self._pattern, self._at)
        if found is not None and found["name"] in self._names:
            raise NotInDialectError(f"duplicate capture group name {found['name']}")
        if found is None:
            if self._pattern.startswith(_AROUND, self._at):
                raise NotInDialectError("look-around, including look-ahead and look-behind, is not supported")
            raise NotInDialectError(f"unrecognized group or flag at {self._pattern[self._at : self._at + 6]!r}")
        self._names |= {found["name"]} - {None}
        return self._take(found)

    def _escape(self) -> str:
        """Translate an escape for a character or a class."""
        code = _CODE.match(self._pattern, self._at)
        if code is not None:
            self._at = code.end()
            return _character(code[1] or code[2] or code[3] or code[4])
        found = _ESCAPE.match(self._pattern, self._at)
        if found is not None:
            taken = self._take(found)
            return {"\\z": "\\Z"}.get(taken, taken)
        following = self._pattern[self._at + 1 : self._at + 2]
        if following.isdigit():
            raise NotInDialectError("backreferences are not supported")
        if not following:
            raise NotInDialectError("incomplete escape sequence, reached end of pattern prematurely")
        if following.isalnum() or not following.isascii() or following in "<>":
            raise NotInDialectError(f"unrecognized escape sequence \\{following}")
        self._at += 2
        return re.escape(following)

    def _set(self) -> str:
        """Translate a set of characters with its inner sets."""
        made: list[str] = []
        while self._at < len(self._pattern):
            made.append(self._in_set(made))
            if self._depth == 0:
                return "".join(made)
        raise NotInDialectError("unclosed character class")

    def _in_set(self, made: list[str]) -> str:
        """Translate the next part of a set: a bracket, a named class, an escape, a character."""
        named = _CLASS_NAME.match(self._pattern, self._at) if made else None
        if named is not None:
            if named[2] not in _POSIX:
                raise NotInDialectError(f"unrecognized character class [:{named[2]}:]")
            self._at = named.end()
            return f"[{named[1]}{_POSIX[named[2]]}]"
        beginning = _SET_BEGINNING.match(self._pattern, self._at)
        if beginning is not None:
            self._at = beginning.end()
            self._depth += 1
            # A leading ] is one of the characters.
            return f"[{beginning[1]}" + ("\\]" if beginning[2] else "")
        char = self._pattern[self._at]
        if char != "\\":
            self._at += 1
            self._depth -= char == "]"
            return "\\|" if char == "|" else char
        escaped = self._escape()
        if made[-1] == "-" and _CLASS_ESCAPE.match(escaped):
            raise NotInDialectError("invalid range boundary, must be a literal")
        return escaped


def _character(digits: str) -> str:
    try:
        character = chr(int(digits, 16))
        character.encode()
    except (ValueError, OverflowError):
        raise NotInDialectError("hexadecimal literal is not a Unicode scalar value") from None
    return re.escape(character)
