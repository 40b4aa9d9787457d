"""The error of a node that is asked to change at a moment that no re-run could repeat."""

from __future__ import annotations


class NodeChangeError(RuntimeError):
    """Raised in statements' code where a thread, or anything else outside of a statement, would change a node."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}() was called from a thread, or when no statement runs: nodes change in statements and ticks only."
            " Call it from the statement itself"
        )
