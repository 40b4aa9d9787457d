"""Renders and their budgets, and the revisions that renders showed.

Plain values, which nodes and levels of detail share. Must not know nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import xxhash

from .revision import Revision


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RenderedView:
    """A render. Non-empty `text` ends with a newline; `tokens` are exact.

    `first_line` and `last_line` count from 1; None if no line of the document is shown. `whole` is False if something
    was omitted for lack of tokens.
    """

    text: str
    tokens: int
    first_line: int | None = None
    last_line: int | None = None
    whole: bool = True

    @property
    def digest(self) -> str:
        """xxh3 hex of the text."""
        return xxhash.xxh3_64_hexdigest(self.text.encode("utf-8", "surrogatepass"))

    def __repr__(self) -> str:
        return self.text


# --- budgets ---------------------------------------------------------------------------------------------------------


UNBOUNDED: Final = 1 << 40
"""The limit of `All`: more tokens than any document has."""


class AllTokens:
    """The type of `All`; it has one instance."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "All"


All: Final = AllTokens()
"""A budget without a limit."""

Budget = int | AllTokens


class DefaultTokens(int):
    """A number of tokens that nobody chose: levels 1 and 2 then keep to their shares of a text."""

    __slots__ = ()


def checked_budget(tokens: object) -> Budget:
    """Validate a `tokens=` argument.

    Raises:
        ValueError: it is neither an int of at least 1 nor `All`.
    """
    if isinstance(tokens, AllTokens):
        return tokens
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 1:
        return int(tokens)
    raise ValueError(f"tokens={tokens!r}: give a number of tokens, at least 1, or All")


def limit_of(tokens: Budget) -> int:
    """Return the budget as a number of tokens."""
    return UNBOUNDED if isinstance(tokens, AllTokens) else min(int(tokens), UNBOUNDED)


class ShownRevision(NamedTuple):
    """A displayed revision, and the index of the statement whose result or tail showed it, 0 if unknown."""

    revision: Revision
    statement: int


class ShownRevisions:
    """The revisions of a view that were displayed, to compare later content with.

    A result or a tail displays a revision; a model has read it once the call with it began to answer. `read` is the one
    that a model read last; `unread` are the first and the last that were displayed since. If no model reads,
    differences are relative to the first display. `is_other`: the conversation shows another revision than these, whose
    content is not known here, because a statement ran again with a different result. Nothing can be compared with it.
    """

    __slots__ = ("is_other", "read", "unread")

    def __init__(
        self, read: ShownRevision | None = None, unread: tuple[ShownRevision, ...] = (), *, is_other: bool = False
    ) -> None:
        self.read = read
        self.unread = unread
        self.is_other = is_other

    @property
    def last(self) -> ShownRevision | None:
        """The revision that differences are relative to.

        Returns None if nothing was displayed, or another revision.
        """
        return None if self.is_other else self.read or next(iter(self.unread), None)

    def displayed(self, shown: ShownRevision) -> None:
        """Note that a revision was displayed."""
        self.unread = (*self.unread[:1], shown)

    def mark_read(self) -> bool:
        """Note that a model has read all displays; return False if it already had."""
        if not self.unread:
            return False
        self.read, self.unread, self.is_other = self.unread[-1], (), False
        return True
