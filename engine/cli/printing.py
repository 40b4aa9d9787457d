"""Text and figures as every command prints them. Must not know any command."""

from __future__ import annotations

import os
from typing import Final

_UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def shown(text: str) -> str:
    """One line that any terminal can take: what is not printable or not Unicode, such as an escape, is replaced."""
    unicode = os.fsencode(text).decode("utf-8", "backslashreplace") if _is_path(text) else ascii(text)[1:-1]
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in unicode)


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
