"""What a statement sees that is kept from acting outside: an exception for each reason why it may not.

Must not know what is stopped, nor by whom. Made by `guard`; who arms that says which refusal it is.
"""

from __future__ import annotations

from collections.abc import Callable


class ReplayEffect(RuntimeError):  # noqa: N818 -- the name is the specification's (engine semantics, section 7)
    """Raised in a statement that runs again and would touch something outside; a replay never does."""


Refusal = Callable[[str], Exception]
"""Makes the exception that the statement sees instead of the effect, given what it was kept from."""


def replaying(phrase: str) -> Exception:
    """The refusal of a replay."""
    return ReplayEffect(f"a replay touches nothing outside; this statement {phrase}")


def planning(phrase: str) -> Exception:
    """The refusal of plan mode."""
    return PermissionError(f"plan mode changes nothing outside; this statement {phrase}")


def editing(phrase: str) -> Exception:
    """The refusal of an edit that changes nothing."""
    return PermissionError(f"an edit without --live changes nothing outside; this statement {phrase}")
