"""What of a view was displayed, and what of that a model has read: the revision that differences are told against.

A result or a tail displays a revision; once a call that carried it began to answer, a model has read it. Where nobody
ever reads, differences are told against what was displayed first. Made and asked by ViewHandle.
"""

from __future__ import annotations

from typing import NamedTuple

from .revision import Revision


class ShownRevision(NamedTuple):
    """A revision that was displayed, and the index of the statement whose result or tail did, 0 where not known."""

    revision: Revision
    statement: int


class ShownRevisions:
    """`read` is what a model read last; `unread` are the first and the last of what was displayed since."""

    __slots__ = ("read", "unread")

    def __init__(self, read: ShownRevision | None = None, unread: tuple[ShownRevision, ...] = ()) -> None:
        self.read = read
        self.unread = unread

    @property
    def last(self) -> ShownRevision | None:
        """What differences are told against; None where nothing was displayed."""
        return self.read or next(iter(self.unread), None)

    def displayed(self, shown: ShownRevision) -> None:
        """A revision was displayed."""
        self.unread = (*self.unread[:1], shown)

    def mark_read(self) -> bool:
        """A model has read all that was displayed; False where it had before."""
        if not self.unread:
            return False
        self.read, self.unread = self.unread[-1], ()
        return True
