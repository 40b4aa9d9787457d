"""Text that every encoder takes and every screen can show: valid Unicode, no control characters, titles, fences.

Pure, and imports nothing of the engine but `cutting`. Must not know where a text comes from or goes to. Called by
whatever takes text from outside (user code, files, other programs) and by whatever shows one.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from .cutting import cut_line

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
