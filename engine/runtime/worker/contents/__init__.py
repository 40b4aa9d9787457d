"""The contents of a value: a digest, and the objects that other values may share with it.

`walk` visits all parts of a value, `forms` knows the parts of each kind of object, and `instances` those of instances,
arrays and tables. Must not know about names. Used by `namespace` and `sharing`.
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
"""The most objects to walk in a value that was too large before."""
_TOO_MUCH: Final = "the values are too large to compare"
"""The reason if the statement's allowance was used up. The digest is then empty, and equals no other."""


class Allowance:
    """The number of objects that may still be walked, in all values of one statement."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes


def contents_of(value: object, allowance: Allowance | None = None) -> Contents:
    """Walk over `value`, which runs library code. Raises only KeyboardInterrupt.

    Of a value that is too large only the first part is walked, always the same one, so two results are comparable.

    Args:
        allowance: the limit for all values of one statement; reduced by the objects walked.
    """
    found = _walked(value, NODES, allowance)
    return _walked(value, _BRIEF, allowance) if found.cut and found.digest else found


def contents_again(value: object, before: Contents, allowance: Allowance | None = None) -> Contents:
    """`contents_of` for a value that was walked before; faster if it was too large."""
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
    """The ids of the mutable objects in the value.

    Args:
        apart: whether a function, class or node is not a part of the values that contain it.
    """
    return Walk(form_of, NODES, ROOM, apart=apart).over(value).parts
