"""The difference between two contents of a file as a person decides by it: all of it, as texts."""

from __future__ import annotations

from ..execution import TextChange


def changes_of(before: bytes | None, after: bytes) -> tuple[tuple[TextChange, ...], str]:
    """The changes, and a note where there is nothing to show of them."""
    old = None if before is None else before.decode("utf-8", "replace")
    return (TextChange(line=1, old=old, new=after.decode("utf-8", "replace")),), ""
