"""`edit(path, old, new, count=1)`: a text in a file, replaced by another.

Line ends are looked past: a newline in `old` is found as the file ends its lines, and one in `new` is written so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from ..cutting import plural
from ..encodings import decode, line_ends, with_line_ends
from .change import Change, change_to, file_to_change
from .nearest import nearest
from .workspace import Workspace
from .write import encoded

_LISTED: Final = 20
"""Line numbers that an error names at most."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` is how often `old` has to occur; None replaces it wherever it does."""

    path: str
    old: str
    new: str
    count: int | None = 1


def perform(workspace: Workspace, arguments: Arguments) -> Change:
    """The change that replaces `old`.

    Raises:
        OSError: as `file_to_change`; FileNotFoundError where there is no file.
        ValueError: `old` does not occur so often, with the lines where it does or the nearest; or it is empty, the
            same as `new`, or there is no text to look in.
    """
    _check(arguments)
    place, before = file_to_change(workspace, arguments.path)
    if before is None:
        raise FileNotFoundError(2, "there is no such file; write() makes one", arguments.path)
    found = decode(before)
    if found is None:
        raise ValueError(f"{arguments.path} is binary, {len(before):,} bytes; edit() changes text, write() takes bytes")
    after = encoded(replaced(found.text, arguments), found.encoding, arguments.path)
    return change_to(workspace, place, before, after)


def _check(arguments: Arguments) -> None:
    if not arguments.old:
        raise ValueError("edit(): old is empty; give the text to replace, or use write() for the whole file")
    if arguments.old == arguments.new:
        raise ValueError("edit(): old and new are the same text")
    if arguments.count is not None and arguments.count < 1:
        raise ValueError(f"edit(): count={arguments.count}; it is 1 or more, or None for every place")


def replaced(text: str, arguments: Arguments) -> str:
    """The text with `old` replaced. Raises ValueError as `perform`."""
    ends = line_ends(text)
    old, new = with_line_ends(arguments.old, "LF"), with_line_ends(arguments.new, "LF")
    if ends.startswith("mixed") or "\r" in old:
        return _replaced_by_pattern(text, old, new, arguments)
    old, new = with_line_ends(old, ends), with_line_ends(new, ends)
    _check_count(text, text.count(old), _places(text, old), arguments)
    return text.replace(old, new)


def _replaced_by_pattern(text: str, old: str, new: str, arguments: Arguments) -> str:
    """The same where lines end in both manners: what is put in ends its lines as what it replaces, or what follows."""
    pattern = re.compile("".join(_PATTERNS.get(piece) or re.escape(piece) for piece in re.split("([\r\n])", old)))
    matches = list(pattern.finditer(text))
    _check_count(text, len(matches), (match.start() for match in matches), arguments)

    def put(match: re.Match[str]) -> str:
        newline = text.find("\n", match.start())
        pair = newline > 0 and text[newline - 1] == "\r"
        return with_line_ends(new, "CRLF" if pair else "LF")

    return pattern.sub(put, text)


_PATTERNS: Final = {"\n": "\r?\n", "\r": "\r(?!\n)"}


def _places(text: str, old: str) -> Iterator[int]:
    place = text.find(old)
    while place >= 0:
        yield place
        place = text.find(old, place + len(old))


def _check_count(text: str, occurs: int, places: Iterator[int], arguments: Arguments) -> None:
    if occurs == arguments.count or (arguments.count is None and occurs):
        return
    path = arguments.path
    if not occurs:
        hint = nearest(text.replace("\r\n", "\n"), with_line_ends(arguments.old, "LF"))
        raise ValueError(f"{path} does not contain that text{hint or '; nothing in it is like it'}")
    listed = list(islice(places, _LISTED))
    numbers = ", ".join(str(text.count("\n", 0, place) + 1) for place in listed)
    more = ", ..." if occurs > len(listed) else ""
    where = f"at {plural(occurs, 'line')} {numbers}{more}"
    times = f"{occurs} {plural(occurs, 'time')}"
    if arguments.count == 1:
        raise ValueError(
            f"{path} contains that text {times}, {where}; give more of the lines around it, or count={occurs}"
        )
    raise ValueError(f"{path} contains that text {times}, not {arguments.count}, {where}")
