"""A page of a text that is read page by page: what stands for it where looks are recorded by path, and its revision.

It has its place in the file and its digest in its name, so what a look at it brings is that page or a reason why not,
whoever answers: the disk, or a record. Pure. Used by `paged_lines`, which asks for pages, and by those who answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from .revision import Revision, digest_of

_BETWEEN: Final = "/../"
_PLACE: Final = re.compile(r"([0-9]{1,15})\+([0-9]{1,6}):([0-9a-f]{16})")
"""No page has a million bytes."""


class PagePlace(NamedTuple):
    """`size` bytes from `start` on of the file at an absolute path, and the xxh3 hex of them."""

    path: str
    start: int
    size: int
    digest: str


def page_path(path: str, start: int, size: int, digest: int) -> str:
    """What stands for a page of the file at `path`; no path that was normalized has two dots alone."""
    return f"{path}{_BETWEEN}{start}+{size}:{digest:016x}"


def is_page(path: str) -> bool:
    """Whether it stands for a page."""
    return _BETWEEN in path


def page_place(path: str) -> PagePlace:
    """The page that it stands for. Raises ValueError where it stands for none."""
    file, _, place = path.partition(_BETWEEN)
    found = _PLACE.fullmatch(place)
    if found is None:
        raise ValueError(f"no place of a page: {place!r}")
    return PagePlace(file, int(found[1]), int(found[2]), found[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRevision(Revision):
    """The revision of a page: its bytes, because a page by itself is no text that anybody sees."""

    page: bytes = b""


def page_revision(path: str, data: bytes) -> PageRevision | None:
    """The revision of the page that `path` stands for; None where it stands for none, or these bytes are another."""
    found = _PLACE.fullmatch(path.partition(_BETWEEN)[2])
    digest = digest_of(data)
    if found is None or found[3] != digest:
        return None
    return PageRevision(state="paged", digest=digest, size=len(data), page=data)
