"""Texts that are too long for their place, and the words that stand for what is missing: one spelling for all of them.

Within a line an ellipsis marks the cut. Between lines a line counts what is missing: `... 3 more handles` at the end of
a list, `... 90 characters left out ...` between two ends. Lengths are in characters. What is cut to a budget of tokens
is measured by its own module and takes the words from here. Pure; imports nothing of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Annotated, Final

ELLIPSIS: Final = "…"
"""Stands for the rest of a line."""
DOTS: Final = "..."
"""Stands for lines where there is no room to count them; begins every line that counts."""


def cut_line(text: str, limit: int) -> str:
    """The text within `limit` characters (1 or more), the last of them an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


def cut_line_from(text: str, start: int, limit: int) -> str:
    """The text from `start` on within `limit` characters (2 or more), with an ellipsis at each end that is missing."""
    return cut_line(text, limit) if start <= 0 else ELLIPSIS + cut_line(text[start:], limit - 1)


def cut_end(text: str, limit: int, where: str = "") -> str:
    """The first `limit` characters, and a line that counts the others, so the result is longer by that line.

    Args:
        where: goes after the count: where the rest is to be found.
    """
    return text if len(text) <= limit else f"{text[:limit]}\n{more(len(text) - limit, 'character', where)}"


def cut_middle(text: str, limit: int) -> str:
    """Both ends, `limit` characters together, and between them a line that counts the others."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return text[:half] + between(len(text) - 2 * half) + text[len(text) - half :]


def more(count: int, noun: str = "", where: str = "") -> str:
    """The line at the end of what is cut: `... 3 more handles`. Without a newline.

    Args:
        noun: what is counted, in the singular.
    """
    return " ".join(part for part in (DOTS, str(count), "more", plural(count, noun), where) if part)


def between(count: int, reason: str = "", noun: str = "character") -> str:
    """The line between two ends, with its newlines: `... 90 characters left out ...`, the reason after a comma."""
    return f"\n{DOTS} {left_out(count, noun)}{reason and f', {reason}'} {DOTS}\n"


def left_out(count: int, noun: str = "character") -> str:
    """The words for what is missing: `90 characters left out`."""
    return f"{count} {plural(count, noun)} left out"


def plural(count: int, noun: str) -> str:
    """The noun as so many have it; empty where it is."""
    if count == 1 or not noun:
        return noun
    return f"{noun}es" if noun.endswith(("ch", "s", "sh", "x")) else f"{noun}s"


# text:
# Text that every encoder takes and every screen can show: valid Unicode, no control characters, titles, fences.
#
# Pure, and imports nothing of the engine but `cutting`. Must not know where a text comes from or goes to. Called by
# whatever takes text from outside (user code, files, other programs) and by whatever shows one.

TITLE_CHARS: Final = 80
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0 but for tab and newline, DEL, C1, and what changes the direction of the text that follows."""
_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b(?:\[[0-?]*[ -/]*)?\Z"  # what is not complete yet
    r"|\x1b[ -/]*[0-~]"
)
"""What a terminal does not show but does."""
_BACKTICKS: Final = re.compile(r"`+")
Exact = Annotated[str, "exact"]
"""The type of a field that something is looked up or compared by: a word of ours, a digest.

Redaction leaves it as it is, as it does identifiers (`ids`) and literals; a field that is a `str` is text.
"""
Named = Annotated[str, "name"]
"""The same for a name that user code makes up: redaction leaves it if it is a word (`log.redaction`)."""
ExactData = Annotated[object, "exact"]
"""The same for plain data: what a statement hands to a tool, which must get it as it is."""


def valid_text(text: str) -> str:
    """The text as valid Unicode, which UTF-8 can hold.

    Two surrogates that form a pair become the character they encode; every other surrogate becomes U+FFFD, one for
    one. So the result is never longer, and a text that is valid already is returned as it is.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def printable(text: str) -> str:
    r"""The text on one line: what is not printable (a newline, a control character, a surrogate) as its escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def first_line(text: str) -> str:
    """The first line that says something, without the space around it; "" where none does."""
    return next((line for line in map(str.strip, text.splitlines()) if line), "")


def title(text: str, otherwise: str) -> str:
    """What names a text in lists: its first line that says something, valid and of at most `TITLE_CHARS` characters.

    Args:
        otherwise: the title of a text that says nothing.
    """
    # NUL is the one valid character that stores refuse.
    return cut_line(first_line(valid_text(text).replace("\0", " ")), TITLE_CHARS) or otherwise


def visible(text: str) -> str:
    r"""The text with every control character but tab and newline as an escape that can be read: `\x1b`, `\u202e`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def as_printed(text: str) -> str:
    """What a screen shows of a text that was printed: no colours, and of what was overwritten in a line the last.

    Other control characters are escapes, as `visible` has them.
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
    """The text as a block of Markdown, whose fence is longer than any in it; without a newline at its end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def code_span(text: str) -> str:
    """A line as code within a line of Markdown."""
    mark = "`" * (_longest_run(text) + 1)
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{mark}{space}{text}{space}{mark}"


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


# legible:
# The source of a statement as a person can read all of it: nothing in it hides, overwrites or reorders what is
# beside.
#
# Whoever decides whether a statement may run must see every line of it, or be told how much is missing. Lines that
# are too long for a screen are broken, and many blank ones are counted, because what is far to the right or far below
# is not seen. What Python takes as the end of a line is one, and a character that would not be seen, or would move
# others, is an escape. Pure. Called by whatever shows sources: editors, terminals.

LINE_CHARS: Final = 120
"""After so many characters a line of a source goes on in the next."""
TAB_COLUMNS: Final = 4
BLANK_LINES: Final = 3
"""More in a row are counted."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
CONTINUED: Final = "\N{RIGHTWARDS ARROW WITH HOOK} "
"""Begins what goes on from the line before; no line of Python can begin so."""
_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""What counts as printable and is blank, variation selectors among it."""


def divided(line: str) -> Iterator[str]:
    """The line in parts of `LINE_CHARS` characters."""
    yield line[:LINE_CHARS]
    yield from (CONTINUED + line[at : at + LINE_CHARS] for at in range(LINE_CHARS, len(line), LINE_CHARS))


def source_text(source: str, limit: int, divide: Callable[[str], Iterator[str]] = divided) -> str:
    """All lines of a source, legible; of one with more than `limit` characters both ends, which say what is missing.

    Args:
        divide: divides a line that may be too long for whoever shows it.
    """
    return "\n".join(_broken(cut_middle(source, limit), divide))


def source_command(source: str, limit: int) -> str:
    """A source for those that show what was asked for as it came: its lines are whole."""
    return "\n".join(source_lines(cut_middle(source, limit)))


def source_lines(source: str) -> list[str]:
    """The lines of a source, each whole and legible; what Python takes as the end of a line is one."""
    return [legible_line(line) for line in _LINE_END.split(source)]


def legible_line(line: str) -> str:
    """The line with an escape for every character but tab that would not be seen as what it is."""
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
