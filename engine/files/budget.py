"""What a `tokens=` argument may be: a positive number of tokens, or `All`.

Owns the value `All` and the check. Called by the nodes' methods and by the Board's injected functions.
"""

from __future__ import annotations

from typing import Final

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
