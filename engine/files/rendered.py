"""What rendering a node gives: text within a budget, and what of the document it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import xxhash

from .revision import Revision


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RenderedView:
    """A render. Non-empty `text` ends with a newline; `tokens` are exact.

    `first_line` and `last_line` count from 1 and are None where no line of the document is shown. `whole` is False
    where something was left out for want of tokens.
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


# budget:
# What a `tokens=` argument may be: a positive number of tokens, or `All`.
#
# Owns the value `All` and the check. Called by the nodes' methods and by the Board's injected functions.

UNBOUNDED: Final = 1 << 40
"""The budget that `All` stands for: more tokens than any document read has."""


class AllTokens:
    """The type of `All`; there is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "All"


All: Final = AllTokens()
"""As a budget: whatever the whole document takes."""

Budget = int | AllTokens


def checked_budget(tokens: object) -> Budget:
    """`tokens` if it is a budget.

    Raises:
        ValueError: it is neither an int of at least 1 nor `All`.
    """
    if isinstance(tokens, AllTokens):
        return tokens
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 1:
        return int(tokens)
    raise ValueError(f"tokens={tokens!r}: give a number of tokens from 1 on, or All")


def limit_of(tokens: Budget) -> int:
    """The budget as a number of tokens."""
    return UNBOUNDED if isinstance(tokens, AllTokens) else min(tokens, UNBOUNDED)


# changing:
# The error of a node that is asked to change at a moment that no re-run could repeat.


class NodeChangeError(RuntimeError):
    """Raised in statements' code where a thread, or anything else outside of a statement, would change a node."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}() was called from a thread, or when no statement runs: nodes change in statements and ticks only."
            " Call it from the statement itself"
        )


# shown revisions:
# What of a view was displayed, and what of that a model has read: the revision that differences are told against.
#
# A result or a tail displays a revision; once a call that carried it began to answer, a model has read it. Where
# nobody ever reads, differences are told against what was displayed first. Made and asked by ViewHandle.


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
