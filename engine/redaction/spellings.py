r"""Texts as they read when what programs put into them is undone: colours, line breaks, escapes of URLs, JSON and HTML.

Pure. A value may be spelled in more ways than can be listed: which characters of a URL are escaped is each program's
choice, a terminal's colours may begin anywhere, and base64 is broken into lines. So a text that has any of that is also
searched as it reads without it, and what is found is replaced where it stands in the text. Called by `redactor`.

What is undone:

- sequences for terminals, as they are and as `repr` and JSON spell their first character;
- a line break, or its `\n`, after 16 characters of base64, as `base64` and e-mail have it after 64 or 76;
- `%41`, `\u0041`, `\/` with any number of backslashes, because a text may be quoted several times; `&amp;`, `&#65;`.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

_RUN: Final = r"(?<!\\)\\+"
"""All backslashes of a run, looked at once."""
_ESCAPE: Final = rf"(?:\x1b|{_RUN}(?:x1[bB]|u001[bB]|033|e))"
_SEQUENCE: Final = r"(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\\\n]*(?:\x07|\x1b\\|\\+x07)|[ -/]*[0-~])"
CONTEXT: Final = 16
"""Characters before a line break that tell whether it breaks base64, or something like it."""
_BASE64: Final = f"[A-Za-z0-9+/_.=-]{{{CONTEXT}}}"
_ENDS: Final = (r"[\r\n]", r"\\[rn]", r"\\\\[rn]")
"""Of a line, as it is and quoted; each of one length, because what stands before it is looked at from behind."""
_BROKEN: Final = "|".join(rf"{end}(?<={_BASE64}{end})(?:[\r\n]|\\+[rn])*[ \t>]*(?=[A-Za-z0-9+/=_.-])" for end in _ENDS)
_UNIT: Final = "u(?!001[bB])[0-9A-Fa-f]{4}"
"""An escape of JSON, but for that of a sequence."""
_SPELLED: Final = re.compile(
    rf"\x1b{_SEQUENCE}|\x9b[0-?]*[ -/]*[@-~]"
    rf"|{_RUN}(?:x1[bB]|u001[bB]|033|e){_SEQUENCE}"
    rf"|{_BROKEN}"
    rf"|(?:%[0-9A-Fa-f]{{2}})+|{_RUN}{_UNIT}(?:\\+{_UNIT})*|{_RUN}[/\"']"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
)
_SIGNS: Final = (
    "\x1b",
    "\x9b",
    r"%[0-9A-Fa-f]{2}",
    r"\\(?:[u/\"']|x1[bB]|033|e\[)",
    r"&(?:#|[A-Za-z][A-Za-z0-9]{1,31};)",
    *(rf"{end}(?<={_BASE64}{end})" for end in (r"\n", r"\r", *_ENDS[1:])),
)
"""Each begins with a character that `re` looks for at once: a text without any of it costs next to nothing."""
_SIGNS_IN_TEXT: Final = tuple(map(re.compile, _SIGNS))
_SIGNS_IN_JSON: Final = tuple(re.compile(sign.encode()) for sign in _SIGNS)
_UNFINISHED: Final = re.compile(
    rf"(?:(?<={_BASE64})[\r\n]+|{_ESCAPE}(?:\[[0-?]*[ -/]*|\][^\x07\x1b\\\n]{{0,2000}}(?:\x1b|\\+[x0]*)?|[(-/])?"
    r"|(?:%[89A-Fa-f][0-9A-Fa-f])+%?[0-9A-Fa-f]?|%[0-9A-Fa-f]?|\\+(?:u[0-9A-Fa-f]{0,3}|x1?|0?3?)|&#?\w{0,6})\Z"
)
"""What may become one of these, when more of the text comes."""


class Reading(NamedTuple):
    """How a text reads. `starts` are positions in `text`, and `places` where each of these stands in the original.

    Where that is a reading itself, it is the one `below`, and the original is what that one is of.
    """

    text: str
    starts: Sequence[int]
    places: Sequence[int]
    below: Reading | None = None

    def place(self, position: int) -> int:
        """Where a character of the reading stands in the original: what was undone stands where it begins."""
        at = bisect_right(self.starts, position) - 1
        is_undone = at % 2 == 1
        place = self.places[at] + (0 if is_undone else position - self.starts[at])
        return place if self.below is None else self.below.place(place)

    def end(self, position: int) -> int:
        """Where what is before a position of the reading ends in the original."""
        at = bisect_right(self.starts, position - 1) - 1
        is_undone = at % 2 == 1
        end = self.places[at + 1] if is_undone else self.places[at] + position - self.starts[at]
        return end if self.below is None else self.below.end(end)

    def read_again(self) -> Reading:
        """How the reading itself reads."""
        return reading(self.text)._replace(below=self)


def is_spelled(text: str) -> bool:
    """Whether the text reads otherwise than it stands there; a cheap question, asked first."""
    return any(sign.search(text) for sign in _SIGNS_IN_TEXT)


def is_spelled_in_json(data: bytes) -> bool:
    """The same for JSON, whose strings spell some of it once more."""
    return any(sign.search(data) for sign in _SIGNS_IN_JSON)


def spelled_parts(text: str, reach: int) -> Iterator[tuple[int, int]]:
    """Where the text reads otherwise, with `reach` characters around it: starts and ends, in order, apart."""
    first = last = -1
    for at in sorted(found.start() for sign in _SIGNS_IN_TEXT for found in sign.finditer(text)):
        if last < 0:
            first = max(0, at - reach)
        elif at - reach > last:
            yield first, last
            first = at - reach
        last = min(len(text), at + reach)
    if last >= 0:
        yield first, last


def reading(text: str) -> Reading:
    """How the text reads; stretches that stand as they are alternate with what was undone, the former first."""
    parts: list[str] = []
    starts, places = [0], [0]
    length = last = 0
    for found in _SPELLED.finditer(text):
        for part, place in ((text[last : found.start()], found.start()), (_undone(found[0]), found.end())):
            parts.append(part)
            length += len(part)
            starts.append(length)
            places.append(place)
        last = found.end()
    return Reading("".join([*parts, text[last:]]), starts, places)


def as_it_stands(text: str) -> Reading:
    """The reading of a text of which that is known."""
    return Reading(text, (0,), (0,))


def without_unfinished(text: str) -> str:
    """The text without an end that nobody can read yet."""
    return _UNFINISHED.sub("", text)


def _undone(spelled: str) -> str:
    match spelled[0], spelled.lstrip("\\")[:1]:
        case "%", _:
            data = bytes.fromhex(spelled.replace("%", ""))
            try:
                return data.decode()
            except UnicodeDecodeError:
                return data.decode("latin-1")
        case "&", _:
            return html.unescape(spelled)
        case "\\", "u" if "\x1b" not in (decoded := _units(spelled)):
            return decoded
        case "\\", "/" | '"' | "'" as sign:
            return sign
        case _:
            return ""


def _units(spelled: str) -> str:
    units: Iterator[str] = (unit for unit in re.split(r"\\+u", spelled) if unit)
    hexadecimal: Callable[[str], int] = partial(int, base=16)
    data = b"".join(number.to_bytes(2, "big") for number in map(hexadecimal, (unit[:4] for unit in units)))
    return data.decode("utf-16-be", "replace")
