"""Links as files of this machine: the path and the lines, or why a link is not a file. And what a web address is.

Owns the forms that editors write: `file://` URIs, absolute and relative paths, and lines after a `#` (`#L4000:4003`,
`#L4000-4003`, `#L7`). Pure string work; must not know whether the file exists. Used to open and show the attachments of
prompts, for the sources of views, and for the addresses of providers and MCP servers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_LINES: Final = re.compile(r"#L([0-9]{1,12})(?:[:-]L?([0-9]{1,12}))?\Z")
_WEB: Final = ("http", "https")


class Lines(NamedTuple):
    """A range of lines, both ends counted from 1 and included."""

    first: int
    last: int


class Target(Struct, frozen=True):
    """The target of a link. `path` is None if it is not a file of this machine; `reason` then completes a sentence.

    That sentence is "LINK was not opened: REASON". A relative path starts from the session's directory. `lines` is None
    for the whole file.
    """

    path: str | None
    lines: Lines | None = None
    reason: str = ""


def target_of(uri: str) -> Target:
    """Return the target of a link. Total: an unreadable link has a reason."""
    found = _LINES.search(uri)
    lines = _lines(found) if found else None
    try:
        return Target(path_in(uri[: found.start()] if found else uri), lines)
    except ValueError as error:
        return Target(None, lines, str(error))


def path_in(uri: str) -> str:
    """Return the path of a `file:` URI or path, absolute or not.

    Raises:
        ValueError: it is neither; the message says why.
    """
    scheme = _SCHEME.match(uri)
    path = uri if scheme is None else _from_uri(uri, scheme[1].lower())
    if not path:
        raise ValueError("the link names no file")
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL character")
    return path


def _from_uri(uri: str, scheme: str) -> str:
    if scheme in _WEB:
        raise ValueError("linked web pages are not fetched; paste the text, or save the page as a file")
    if scheme != "file":
        raise ValueError(f"only file:// links can be opened, not {scheme}:")
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ValueError("the link is malformed") from None
    if parts.netloc not in {"", "localhost"}:
        raise ValueError("the file is on another host")
    # A name that is not UTF-8 is escaped byte by byte, and `open` takes those bytes as surrogates.
    return unquote(parts.path, errors="surrogateescape")


def _lines(found: re.Match[str]) -> Lines:
    first = max(int(found[1]), 1)
    last = max(int(found[2] or 0), 1) if found[2] else first
    return Lines(min(first, last), max(first, last))


def web_address(url: str) -> SplitResult | None:
    """Return the parts of a web address, all of which can be read; None for another text."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in _WEB and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or a bracket
        return None
    return parts if is_one and url.isprintable() and " " not in url else None
