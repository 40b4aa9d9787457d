"""`write(path, text)` creates or replaces a file; `edit(path, old, new, count=1)` replaces a text in it.

Text written to an existing file keeps the file's style: its encoding, line ends, and whether the last line is ended.
Bytes are written unchanged. `edit` ignores differences of line ends: a newline in `old` matches the file's line ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from io import StringIO
from itertools import accumulate, islice
from typing import Annotated, Any, Final

import msgspec

from ...core.encodings import UTF_8, Encoding, decode, line_ends, with_line_ends
from ...core.text import cut_line, plural
from ...files.revision import Hide
from .change import Change, change_to, check_size, file_to_change
from .workspace import Workspace


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`text` is text or bytes, a union that msgspec does not support. `mode` has the permission bits of a new file.

    `write()` in a statement has no mode. One comes from code that creates a file with `os.open`.
    """

    path: str
    text: Any
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o777)] | None = None


def write(workspace: Workspace, arguments: WriteArguments) -> Change:
    """The change that writes the text to the file.

    Raises:
        OSError: as `file_to_change`.
        TypeError: `text` is neither text nor bytes.
        ValueError: the file's encoding cannot encode the text.
    """
    text: object = arguments.text
    if not isinstance(text, str | bytes):
        raise TypeError(f"write(): text is a string or bytes, not {type(text).__name__}")
    file = file_to_change(workspace, arguments.path)
    after = text if isinstance(text, bytes) else in_the_manner_of(file.data or b"", text, arguments.path)
    return change_to(workspace, file, after, mode=arguments.mode if file.data is None else None)


def in_the_manner_of(existing: bytes, text: str, path: str) -> bytes:
    """The text in the style of the existing file; UTF-8 and unchanged if that is empty or binary."""
    found = decode(existing)
    if found is None or not found.text:
        return encoded(text, UTF_8 if found is None else found.encoding, path)
    text = with_line_ends(text, line_ends(found.text))
    return encoded(_ended_as(found.text, text), found.encoding, path)


def _ended_as(existing: str, text: str) -> str:
    if not text or existing.endswith("\n") == text.endswith("\n"):
        return text
    if existing.endswith("\n"):
        return text + ("\r\n" if existing.endswith("\r\n") else "\n")
    return text.removesuffix("\n").removesuffix("\r")


def encoded(text: str, encoding: Encoding, path: str) -> bytes:
    """The text as bytes. Raises ValueError, with advice, if the encoding cannot encode it."""
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is in {encoding.name}, which cannot encode {text[error.start]!r} in line {line}; "
            "remove this text, or write() the file as bytes in another encoding"
        ) from None


# --- the lines nearest to a text that `edit` did not find -------------------------------------------------------------
#
# The time is bounded for any text, because the result is only a hint. The longest words, found by the C code of
# `str.find`, select the lines to compare.

SHOWN: Final = 3
"""The most lines in the hint."""
_SHOWN_CHARS: Final = 160
_WORDS: Final = 12
_PLACES: Final = 200
"""The most occurrences of each word that are used."""
_COMPARED: Final = 40
_COMPARED_CHARS: Final = 200
_BLOCK_LINES: Final = 50
_LONGEST_LINE: Final = 10_000
_LOOKS: Final = 200_000
"""The most lines that are split into words."""
_WORD: Final = re.compile(r"\w{2,}")
_ALIKE: Final = 0.5
"""Lines with a lower ratio are not shown."""


def nearest(text: str, wanted: str, hide: Hide) -> str:
    """The lines most like `wanted`, without secrets, as the end of a sentence, or "". Lines end in LF."""
    if not wanted.strip():
        return ""
    lines = text.split("\n")
    hidden = hide(text)
    block = wanted.strip("\n").split("\n")
    at = _but_for_space(lines, block)
    if at is not None:
        shown = [(number, lines[number]) for number in range(at, at + len(block))]
        return f"; only white space differs from{_listed(shown, hidden)}"
    key = max(block, key=lambda line: len(line.strip()))
    alike = _alike(text, lines, key)
    return f"; the nearest {'lines are' if len(alike) > 1 else 'line is'}{_listed(alike, hidden)}" if alike else ""


def _but_for_space(lines: Sequence[str], block: Sequence[str]) -> int | None:
    """The index of the first line of a block that differs only in white space."""
    bare = [line.split() for line in block[:_BLOCK_LINES]]
    looks = 0
    for at in range(len(lines) - len(block) + 1):
        # `in` costs a quarter of `split`, and rejects nearly every line.
        if bare[0] and bare[0][0] not in lines[at]:
            continue
        for offset, wanted in enumerate(bare):
            looks += 1
            other = lines[at + offset]
            if len(other) > _LONGEST_LINE or other.split() != wanted:
                break
        else:
            return at
        if looks > _LOOKS:
            return None
    return None


def _alike(text: str, lines: Sequence[str], key: str) -> list[tuple[int, str]]:
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(key.strip()[:_COMPARED_CHARS])
    rated: list[tuple[float, int]] = []
    for at in _candidates(text, lines, key):
        matcher.set_seq1(lines[at].strip()[:_COMPARED_CHARS])
        if matcher.quick_ratio() >= _ALIKE and (rate := matcher.ratio()) >= _ALIKE:
            rated.append((-rate, at))
    return [(at, lines[at]) for _, at in sorted(rated)[:SHOWN]]


def _candidates(text: str, lines: Sequence[str], key: str) -> Iterable[int]:
    """Indices of the lines that share most words with the key, weighted by length; the first lines if none do."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    weights: Counter[int] = Counter()
    for word in sorted(set(_WORD.findall(key)), key=len, reverse=True)[:_WORDS]:
        place = -1
        for _ in range(_PLACES):
            place = text.find(word, place + 1)
            if place < 0:
                break
            weights[bisect_right(starts, place) - 1] += len(word)
    if weights:
        return [at for at, _ in weights.most_common(_COMPARED)]
    return range(min(len(lines), _COMPARED))


def _listed(lines: Sequence[tuple[int, str]], hidden: Mapping[int, str]) -> str:
    shown = [f"\n{at + 1:>6}  {cut_line(hidden.get(at, line), _SHOWN_CHARS)}" for at, line in lines[: 2 * SHOWN]]
    return "".join([":", *shown])


# --- edit -------------------------------------------------------------------------------------------------------------

_LISTED: Final = 20
"""The most line numbers in an error."""


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` is how often `old` must occur; None replaces every occurrence."""

    path: str
    old: str
    new: str
    count: int | None = 1


def edit(workspace: Workspace, arguments: EditArguments) -> Change:
    """The change that replaces `old`.

    Raises:
        OSError: as `file_to_change`; FileNotFoundError if there is no file.
        ValueError: `old` does not occur `count` times (the message has its lines, or the nearest); it is empty or
            equals `new`; or the file is binary.
    """
    _check(arguments)
    file = file_to_change(workspace, arguments.path)
    if file.data is None:
        raise FileNotFoundError(2, "there is no such file; write() creates it", arguments.path)
    found = decode(file.data)
    if found is None:
        raise ValueError(
            f"{arguments.path} is binary, {len(file.data):,} bytes; edit() changes text, write() takes bytes"
        )
    after = encoded(replaced(found.text, arguments, workspace.hide), found.encoding, arguments.path)
    return change_to(workspace, file, after)


def _check(arguments: EditArguments) -> None:
    if not arguments.old:
        raise ValueError("edit(): old is empty; give the text to replace, or use write() for the whole file")
    if arguments.old == arguments.new:
        raise ValueError("edit(): old and new are the same text")
    if arguments.count is not None and arguments.count < 1:
        raise ValueError(f"edit(): count={arguments.count} must be 1 or more, or None for every occurrence")


def replaced(text: str, arguments: EditArguments, hide: Hide) -> str:
    """The text with `old` replaced, in linear time. `hide` hides secrets in errors.

    Raises ValueError and OSError as `edit`.
    """
    ends = line_ends(text)
    old, new = with_line_ends(arguments.old, "LF"), with_line_ends(arguments.new, "LF")
    if "\r" in old or (ends.startswith("mixed") and "\n" in old + new):
        return _replaced_in_either_manner(text, old, new, arguments, hide)
    old, new = with_line_ends(old, ends), with_line_ends(new, ends)
    _check_places(text, old, new, arguments, hide)
    return text.replace(old, new)


def _replaced_in_either_manner(text: str, old: str, new: str, arguments: EditArguments, hide: Hide) -> str:
    """The same for mixed line ends: each replacement takes the line ends of the replaced text, or of the next line.

    The search runs in a copy with LF for CRLF, and each place is then followed in both texts.
    """
    plain = text.replace("\r\n", "\n")
    _check_places(plain, old, new, arguments, hide)
    by_ends = {pair: with_line_ends(new, "CRLF" if pair else "LF") for pair in (False, True)}
    result = StringIO(newline="")
    at = plain_at = 0
    newline = -1
    for place in _places(plain, old):
        start = _after(text, at, place - plain_at)
        if newline < start:
            newline = text.find("\n", start)
            newline = len(text) if newline < 0 else newline
        result.write(text[at:start])
        result.write(by_ends[newline < len(text) and text[newline - 1 : newline] == "\r"])
        at, plain_at = _after(text, start, len(old)), place + len(old)
    result.write(text[at:])
    return result.getvalue()


def _after(text: str, at: int, count: int) -> int:
    """The position `count` characters after `at`, where CRLF counts as one. `at` is not inside a CRLF."""
    while count:
        end = at + count
        end += text.startswith("\r\n", end - 1)
        count -= end - at - text.count("\r\n", at, end)
        at = end
    return at


def _places(text: str, old: str) -> Iterator[int]:
    place = text.find(old)
    while place >= 0:
        yield place
        place = text.find(old, place + len(old))


def _check_places(text: str, old: str, new: str, arguments: EditArguments, hide: Hide) -> None:
    """Raise if `old` does not occur `count` times, or if the result would be too large."""
    occurs = text.count(old)
    _check_count(text, occurs, _places(text, old), arguments, hide)
    check_size(len(text) + occurs * (len(new) - len(old)), arguments.path)


def _check_count(text: str, occurs: int, places: Iterator[int], arguments: EditArguments, hide: Hide) -> None:
    if occurs == arguments.count or (arguments.count is None and occurs):
        return
    path = arguments.path
    if not occurs:
        hint = nearest(text.replace("\r\n", "\n"), with_line_ends(arguments.old, "LF"), hide)
        raise ValueError(f"{path} does not contain the text `old`{hint or ', or similar text'}")
    listed = list(islice(places, _LISTED))
    numbers = ", ".join(str(text.count("\n", 0, place) + 1) for place in listed)
    more = ", ..." if occurs > len(listed) else ""
    where = f"at {plural(occurs, 'line')} {numbers}{more}"
    times = f"{occurs} {plural(occurs, 'time')}"
    if arguments.count == 1:
        raise ValueError(
            f"{path} contains the text `old` {times}, {where}; add surrounding lines to `old`, or set count={occurs}"
        )
    raise ValueError(f"{path} contains the text `old` {times}, not {arguments.count}, {where}")
