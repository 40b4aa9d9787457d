"""Text: cutting, counting what was cut, valid and printable text, Markdown fences, and sources that hide nothing.

**Cuts** have one spelling everywhere. Within a line an ellipsis marks the cut. Between lines a line counts what is
missing: `... 3 more handles` at the end of a list, `... 90 characters left out ...` between two ends. Lengths are in
characters. Modules that cut to a budget of tokens measure by themselves and take the words from here.

No cut leaves a part of a word of 8 characters or more, whether it is a key or not: who knows the keys could not find a
part of one, and who chooses the text must not learn whether it contains a key.

**Sources** are shown so that the person who decides about a statement sees every line of it, or is told how much is
missing. Lines that are too long for a screen are broken, and many blank lines are counted, because text far to the
right or far below is not seen. Everything that Python takes as the end of a line ends one, and invisible characters and
those that would move others become escapes.

Pure; imports nothing of the engine. Used wherever text comes from outside (user code, files, other programs) or is
shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Annotated, Final

Exact = Annotated[str, "exact"]
"""The type of a field that is looked up or compared: a word of ours, a digest.

Redaction does not change it, nor identifiers (`ids`) and literals. A field of type `str` is text.
"""
Named = Annotated[str, "name"]
"""The type of a name that user code chose. Redaction does not change it if it is a word (`log.redaction`)."""
Content = Annotated[bytes, "content"]
"""The type of content that an event has in itself. Redaction empties it if a secret is in it."""
ExactData = Annotated[object, "exact"]
"""The type of plain data that a tool must get unchanged from a statement."""

ELLIPSIS: Final = "…"
"""Replaces the rest of a line."""
HIDDEN: Final = "***"
"""What a secret becomes."""
DOTS: Final = "..."
"""Begins every line that counts, and replaces lines if there is no room to count them."""
TITLE_CHARS: Final = 80
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0 except tab and newline, DEL, C1, and characters that change the direction of text."""
_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b(?:\[[0-?]*[ -/]*)?\Z"  # incomplete
    r"|\x1b[ -/]*[0-~]"
)
"""Control sequences of terminals."""
_BACKTICKS: Final = re.compile(r"`+")
LINE_CHARS: Final = 120
"""The length at which a line of a source is broken."""
TAB_COLUMNS: Final = 4
BLANK_LINES: Final = 3
"""How many blank lines in a row are shown; more are counted."""

_SEPARATOR: Final = re.compile(
    "[\\s\"'`,;<>\\[\\]{}|\u0e00-\u0e7f\u1100-\u11ff\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]"
)
"""What no key contains: blanks, quotation marks, separators of data, and letters of scripts without blanks."""
_SHORTEST_KEY: Final = 8
_DIFFERENT: Final = 4
"""How many different characters a key has at least."""
_LOOKED_AT: Final = 512
"""Characters in which the beginning of a word is looked for first."""
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
CONTINUED: Final = "\N{RIGHTWARDS ARROW WITH HOOK} "
"""Begins the continuation of a broken line. No line of Python can begin like this."""
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Printable characters that are blank, and variation selectors."""


# --- cuts -------------------------------------------------------------------------------------------------------------


def cut_line(text: str, limit: int) -> str:
    """Cut the text to at most `limit` characters (1 or more), the last an ellipsis if it was longer."""
    if len(text) <= limit:
        return text
    return text[: limit - 1 - broken_word(text, limit - 1)[0]] + ELLIPSIS


def cut_line_from(text: str, start: int, limit: int) -> str:
    """Cut the text to at most `limit` characters (2 or more) from `start` on, with an ellipsis at each cut end."""
    if start <= 0:
        return cut_line(text, limit)
    return ELLIPSIS + cut_line(text[start + broken_word(text, start)[1] :], limit - 1)


def cut_end(text: str, limit: int, where: str = "") -> str:
    """Return at most `limit` characters, and a further line that counts the others.

    Args:
        where: follows the count: where to find the rest.
    """
    if len(text) <= limit:
        return text
    end = limit - broken_word(text, limit)[0]
    return f"{text[:end]}\n{more(len(text) - end, 'character', where)}"


def cut_middle(text: str, limit: int) -> str:
    """Return both ends, at most `limit` characters together, and between them a line that counts the others."""
    if len(text) <= limit:
        return text
    start, end = limit // 2, len(text) - limit // 2
    start, end = start - broken_word(text, start)[0], end + broken_word(text, end)[1]
    return text[:start] + between(end - start) + text[end:]


def broken_word(text: str, at: int) -> tuple[int, int]:
    """Return how many characters of a word a cut at a position must remove before it, and after it.

    Both are 0 if the position is at an end of a word, or in a word that is no key: of fewer than 8 characters, or of
    fewer than 4 different ones. A word is removed whole, however long it is, because a key may be anywhere in it.
    """
    start, end = _start_of_word(text, at), _end_of_word(text, at)
    return (at - start, end - at) if start < at < end and _may_be_key(text[start:end]) else (0, 0)


def without_last_word(text: str) -> str:
    """Return the beginning of a text that goes on, up to its last word, of which more may follow."""
    return text[: _start_of_word(text, len(text))]


def whole_words_before_cut(text: str) -> str:
    """Return the text before a cut, of which nothing else is known, without a last word that may be part of a key."""
    start = _start_of_word(text, len(text))
    return text[:start] if _may_be_key(text[start:]) else text


def whole_words_after_cut(text: str) -> str:
    """Return the text after a cut, of which nothing else is known, without a first word that may be part of a key."""
    end = _end_of_word(text, 0)
    return text[end:] if _may_be_key(text[:end]) else text


def _may_be_key(word: str) -> bool:
    return len(word) >= _SHORTEST_KEY and len(set(word)) >= _DIFFERENT


def _end_of_word(text: str, at: int) -> int:
    found = _SEPARATOR.search(text, at)
    return found.start() if found else len(text)


def _start_of_word(text: str, at: int) -> int:
    size = _LOOKED_AT
    while True:
        first = max(0, at - size)
        start = max((found.end() for found in _SEPARATOR.finditer(text, first, at)), default=0)
        if start or not first:
            return start
        size *= 4


def more(count: int, noun: str = "", where: str = "") -> str:
    """Return the line at the end of something cut, without a newline: `... 3 more handles`.

    Args:
        noun: in the singular.
    """
    return " ".join(part for part in (DOTS, str(count), "more", plural(count, noun), where) if part)


def between(count: int, reason: str = "", noun: str = "character") -> str:
    """Return the line between two ends, with newlines: `... 90 characters left out, REASON ...`."""
    return f"\n{DOTS} {left_out(count, noun)}{reason and f', {reason}'} {DOTS}\n"


def left_out(count: int, noun: str = "character") -> str:
    """Return the words for a cut: `90 characters left out`."""
    return f"{count} {plural(count, noun)} left out"


def plural(count: int, noun: str) -> str:
    """Return the singular or plural of a noun for that count."""
    if count == 1 or not noun:
        return noun
    return f"{noun}es" if noun.endswith(("ch", "s", "sh", "x")) else f"{noun}s"


# --- valid and printable text -----------------------------------------------------------------------------------------


def valid_text(text: str) -> str:
    """Return the text as valid Unicode, which UTF-8 can encode.

    Two surrogates that form a pair become the character that they encode; every other surrogate becomes U+FFFD. So the
    result is never longer, and a valid text is returned unchanged.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def printable(text: str) -> str:
    r"""Return the text on one line, with escapes for newlines, control characters and surrogates."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def first_line(text: str) -> str:
    """Return the first line that is not blank, stripped; "" if there is none."""
    return next((line for line in map(str.strip, text.splitlines()) if line), "")


def title(text: str, otherwise: str) -> str:
    """Return a title for lists: the first line that is not blank, valid and at most `TITLE_CHARS` long.

    Args:
        otherwise: the title of a blank text.
    """
    # NUL is the one valid character that stores refuse.
    return cut_line(first_line(valid_text(text).replace("\0", " ")), TITLE_CHARS) or otherwise


def visible(text: str) -> str:
    r"""Return the text with escapes for control characters except tab and newline: `\x1b`, `\u202e`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def as_printed(text: str) -> str:
    """Return what a screen shows of a printed text: without colours, and with overwritten parts of lines replaced.

    Other control characters become escapes, as in `visible`.
    """
    if _CONTROL.search(text) is None:
        return text
    lines = _SEQUENCE.sub("", text).split("\n")
    return visible("\n".join(_overwritten(line) if "\r" in line or "\b" in line else line for line in lines))


def _overwritten(line: str) -> str:
    cells: list[str] = []
    at = 0
    for char in line:
        if char == "\r":
            at = 0
        elif char == "\b":
            at = max(at - 1, 0)
        else:
            cells[at : at + 1] = char
            at += 1
    return "".join(cells)


def fenced(text: str, language: str = "") -> str:
    """Return the text as a fenced block of Markdown, without a final newline. The fence is longer than any in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def code_span(text: str) -> str:
    """Return a line as inline code of Markdown."""
    mark = "`" * (_longest_run(text) + 1)
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{mark}{space}{text}{space}{mark}"


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


# --- sources as a person can read them --------------------------------------------------------------------------------


def divided(line: str) -> Iterator[str]:
    """Yield the line in parts of `LINE_CHARS` characters."""
    yield line[:LINE_CHARS]
    yield from (CONTINUED + line[at : at + LINE_CHARS] for at in range(LINE_CHARS, len(line), LINE_CHARS))


def source_text(source: str, limit: int, divide: Callable[[str], Iterator[str]] = divided) -> str:
    """Return a source for people: legible lines, long ones divided, and both ends only beyond `limit` characters.

    Args:
        divide: divides a line that may be too long for the screen.
    """
    return "\n".join(_broken(cut_middle(source, limit), divide))


def source_command(source: str, limit: int) -> str:
    """Return a source with legible, undivided lines, for clients that show a request unchanged."""
    return "\n".join(source_lines(cut_middle(source, limit)))


def source_lines(source: str) -> list[str]:
    """Return the lines of a source, each whole and legible, divided where Python ends a line."""
    return [legible_line(line) for line in _LINE_END.split(source)]


def legible_line(line: str) -> str:
    """Return the line with escapes for invisible characters and those that would move others, except tab."""
    if line.replace("\t", " ").isprintable() and _UNSEEN.search(line) is None:
        return line
    return "".join(char if _is_seen(char) else char.encode("unicode_escape").decode() for char in line)


def _broken(source: str, divide: Callable[[str], Iterator[str]]) -> Iterator[str]:
    for is_blank, group in groupby(source_lines(source), lambda line: not line.strip()):
        lines = list(group)
        if is_blank and len(lines) > BLANK_LINES:
            yield f"… {len(lines):,} blank lines …"
            continue
        for line in (line.expandtabs(TAB_COLUMNS) for line in lines):
            yield from divide(line)


def _is_seen(char: str) -> bool:
    return char == "\t" or (char.isprintable() and _UNSEEN.match(char) is None)
