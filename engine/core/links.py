"""What a link means on this machine: which file, and which lines of it, or why it is none.

Owns the forms that editors write: `file://` URIs, absolute and relative paths, and lines after a `#` (`#L4000:4003`,
`#L4000-4003`, `#L7`). Pure string work; must not know whether the file exists. Called where a prompt's attachments are
opened and shown, and by `files.source` for what statements view.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec import Struct

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_LINES: Final = re.compile(r"#L([0-9]{1,12})(?:[:-]L?([0-9]{1,12}))?\Z")
_WEB: Final = ("http", "https")


class Lines(NamedTuple):
    """From the first line to the last, both counted from 1 and included."""

    first: int
    last: int


class Target(Struct, frozen=True):
    """Where a link leads.

    `path` is None where it leads to no file of this machine, and `reason` then goes on after the link, as in "was not
    opened: ...". A relative path starts from the session's directory. `lines` is None for the whole.
    """

    path: str | None
    lines: Lines | None = None
    reason: str = ""


def target_of(uri: str) -> Target:
    """Where `uri` leads. Total: whatever cannot be read has a reason."""
    found = _LINES.search(uri)
    lines = _lines(found) if found else None
    try:
        return Target(path_in(uri[: found.start()] if found else uri), lines)
    except ValueError as error:
        return Target(None, lines, str(error))


def path_in(uri: str) -> str:
    """The path that a `file:` URI or a path means, absolute or not.

    Raises:
        ValueError: it is none; the message says why.
    """
    scheme = _SCHEME.match(uri)
    path = uri if scheme is None else _from_uri(uri, scheme[1].lower())
    if not path:
        raise ValueError("it names no file")
    if "\0" in path:
        raise ValueError("no path holds a NUL character")
    return path


def _from_uri(uri: str, scheme: str) -> str:
    if scheme in _WEB:
        raise ValueError("web pages are not fetched; paste what matters, or save it as a file")
    if scheme != "file":
        raise ValueError(f"of URIs, this version opens file:// only, not {scheme}:")
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ValueError("it is not well-formed") from None
    if parts.netloc not in {"", "localhost"}:
        raise ValueError("it is a file of another host")
    # A name that is not UTF-8 is escaped byte by byte, and `open` takes those bytes as surrogates.
    return unquote(parts.path, errors="surrogateescape")


def _lines(found: re.Match[str]) -> Lines:
    first = max(int(found[1]), 1)
    last = max(int(found[2] or 0), 1) if found[2] else first
    return Lines(min(first, last), max(first, last))
