"""Revisions of texts that have no secrets."""

from __future__ import annotations

from collections.abc import Callable

from engine.files import revision
from engine.files.paging import PagedLines, PageIndex
from engine.files.revision import Revision, show_all


def decoded(data: bytes) -> Revision:
    return revision.decoded(data, show_all)


def from_text(text: str, first_line: int = 1) -> Revision:
    return revision.from_text(text, show_all, first_line)


def paged_lines(index: PageIndex, read: Callable[[str, str], bytes]) -> PagedLines:
    """The lines of a file `/f`."""
    return PagedLines(index, "/f", "f", read, show_all)
