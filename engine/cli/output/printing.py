"""Text and figures as every command prints them: nothing in a session can control the terminal that it is shown on.

Must not know any command.
"""

from __future__ import annotations

import os
import re
from typing import Final

from ...core.text import cut_line, first_line, printable

_UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_CONTROL_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What JSON lets stand in a string as it is."""


def visible_json(text: str) -> str:
    """JSON of the same value, in which no control character stands as it is."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shown(text: str) -> str:
    r"""One line that any terminal can take: what is not printable or not Unicode is an escape, a newline too."""
    unicode = os.fsencode(text).decode("utf-8", "backslashreplace") if _is_path(text) else text
    return printable(unicode)


def shown_line(text: str, width: int) -> str:
    """The first line that says something, as `shown` shows it, cut to `width` characters with an ellipsis."""
    return cut_line(shown(first_line(text)), width)


def size(count: int) -> str:
    """Bytes in decimal units: `812 B`, `4.1 kB`, `12.0 MB`, `1.3 GB`."""
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"


def _is_path(text: str) -> bool:
    # Whether what is no Unicode in it are bytes of a path, which Python keeps as lone surrogates of one range.
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
