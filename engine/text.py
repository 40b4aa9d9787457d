"""Text that every encoder takes and every line can hold: valid Unicode, printable characters, first lines, titles.

Pure, and imports nothing of the engine but `cutting`. Must not know where a text comes from or goes to. Called by
whatever takes text from outside (user code, files, other programs) and by whatever shows one.
"""

from __future__ import annotations

from typing import Annotated, Final

from .cutting import cut_line

TITLE_CHARS: Final = 80
Exact = Annotated[str, "exact"]
"""The type of a field that something is looked up or compared by: a word of ours, a digest, a name of user code.

Redaction leaves it as it is, as it does identifiers (`ids`) and literals; a field that is a `str` is text.
"""


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
