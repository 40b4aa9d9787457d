"""What is known of a name from one statement to the next, and the difference as it is found. Used by `namespace`.

`Known` is a Struct though it holds a live object, because every statement makes some, as `contents.found` says.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ....core.execution import ChangeInfo, NamespaceDiff, TypeInfo
from ....core.text import ELLIPSIS
from ..contents import Allowance, Contents, contents_again, contents_of
from ..keeping.identity import is_named
from .reading import Uses
from .summaries import describe


class Known(Struct, frozen=True):
    """What was last seen under a name. `reference` is dropped before a statement that binds or deletes the name.

    A digest that is empty is that of nothing: the value was not walked. `is_named`: it is a function or a class, which
    copies of other values may hold by this name. `is_open`: it may have more parts than are known.
    """

    identity: int
    reference: object
    info: TypeInfo
    contents: Contents
    is_named: bool = False
    is_open: bool = False

    @property
    def digest(self) -> str | None:
        """What the log gets: None where it does not cover all."""
        return None if self.contents.gap else self.contents.digest

    def may_be_changed(self, name: str, uses: Uses) -> bool:
        """Whether a statement that touched the name may have changed what cannot be told of it."""
        contents = self.contents
        if name not in uses.read and name not in uses.stored:
            return True
        if name in uses.stored and (contents.large or self.identity in contents.gaps):
            return True
        if name in uses.consumed and not contents.large:
            return True
        # To read from an object of the user's may run any code of its class.
        return type(self.reference) in contents.classes


INTERRUPTED: Final = "its examination was interrupted"
ALLOWANCE: Final = 200_000
"""Objects walked for one statement at most: about half a second."""


class Found:
    """The difference as far as it is known."""

    __slots__ = (
        "added",
        "allowance",
        "before",
        "changed",
        "deleted",
        "digests",
        "dirty",
        "examined",
        "loose",
        "spread",
        "unbound",
        "unknown",
    )

    def __init__(self) -> None:
        self.allowance = Allowance(ALLOWANCE)
        self.before: dict[str, Known] = {}
        """What was known of names, first of all."""
        self.added: dict[str, TypeInfo] = {}
        self.changed: dict[str, ChangeInfo] = {}
        self.unknown: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.digests: dict[str, str] = {}
        self.examined: set[str] = set()
        self.dirty: set[int] = set()
        """Parts that have changed, or may have, or are no longer where they were."""
        self.loose: set[int] = set()
        """Parts that cannot be told, and may have changed."""
        self.spread: set[str] = set()
        """Names of which that holds for some part."""
        self.unbound: frozenset[int] = frozenset()
        """Functions and classes that names have let go, with what is in those: copies that hold them by such a name
        would hold another one."""

    def diff(self) -> NamespaceDiff:
        return NamespaceDiff(
            added=self.added,
            changed=self.changed,
            deleted=tuple(sorted(self.deleted)),
            digests=self.digests,
            unknown={name: why for name, why in self.unknown.items() if name not in self.changed},
            deep=True,
        )


def unexamined(value: object) -> Known:
    """What is known of a value before, or without, looking at it."""
    info = TypeInfo(type_name=type(value).__name__, short_repr=ELLIPSIS)
    parts = frozenset((id(value),))
    return Known(id(value), value, info, Contents(digest="", gap=INTERRUPTED, parts=parts, gaps=parts))


def left_open(known: Known) -> Known:
    """The same where an interrupt kept the value from being examined: `parts` is not all that it has."""
    contents = known.contents
    return replace(known, contents=replace(contents, gap=contents.gap or INTERRUPTED, digest=""), is_open=True)


def learned(value: object, allowance: Allowance) -> Known:
    """What is to be known of a value."""
    return Known(id(value), value, describe(value), contents_of(value, allowance), is_named(value))


def looked_again(known: Known, allowance: Allowance) -> Known:
    """What is under the name now, described anew where it is not the same."""
    contents = contents_again(known.reference, known.contents, allowance)
    if contents == known.contents:
        return known
    if not contents.digest:
        contents = replace(contents, parts=contents.parts | known.contents.parts)
    info = describe(known.reference) if contents.digest != known.contents.digest else known.info
    return replace(known, info=info, contents=contents, is_open=False)


def change_of(before: Known, after: Known, mutated: bool) -> ChangeInfo:
    return ChangeInfo(
        before=before.info,
        after=after.info,
        before_digest=before.digest,
        after_digest=after.digest,
        mutated=mutated,
    )
