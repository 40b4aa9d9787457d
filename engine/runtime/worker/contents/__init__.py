"""What a value consists of: a digest of its content, and the objects that others may share with it.

`walk` goes over everything that a value holds; `forms` knows what each kind of object consists of, `tables` those of
numpy and pandas. Must not know about names. Used by `namespace` and `sharing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from .forms import form_of
from .walk import NODES, ROOM, Walk
from .walk import Contents as Contents
from .walk import behind as behind

_BRIEF: Final = 10_000
"""Objects walked in a value that was found to be too large before."""
_TOO_MUCH: Final = "too much would have to be compared"
"""Why a value is not known at all: the statement's allowance was used up. Its digest is empty, and equals none."""


class Allowance:
    """How many objects may still be walked, in all the values of one statement."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes


def contents_of(value: object, allowance: Allowance | None = None) -> Contents:
    """Walks over `value`, which runs code of libraries. Raises nothing but KeyboardInterrupt.

    A value too large for a whole walk is walked in its first part only, always the same, so that two can be compared.

    Args:
        allowance: what all values of one statement together may take; what is walked is taken from it.
    """
    found = _walked(value, NODES, allowance)
    return _walked(value, _BRIEF, allowance) if found.cut and found.digest else found


def contents_again(value: object, before: Contents, allowance: Allowance | None = None) -> Contents:
    """`contents_of` for a value that was walked before; quicker where it was found to be too large."""
    if before.cut:
        found = _walked(value, _BRIEF, allowance)
        if found.cut:
            return found
    return contents_of(value, allowance)


def _walked(value: object, nodes: int, allowance: Allowance | None) -> Contents:
    limit = nodes if allowance is None else min(nodes, allowance.nodes)
    walk = Walk(form_of, limit, ROOM, whole=nodes == NODES)
    found = walk.over(value)
    if allowance is not None:
        allowance.nodes -= limit - max(walk.nodes, 0)
    if found.cut and limit < nodes:
        return replace(found, digest="", gap=_TOO_MUCH)
    return found


def parts_of(value: object, apart: Callable[[object], bool]) -> frozenset[int]:
    """The ids of the mutable objects in the value, without what is kept apart from it.

    Args:
        apart: whether a function, class or node counts as no part of what holds it.
    """
    return Walk(form_of, NODES, ROOM, apart=apart).over(value).parts
