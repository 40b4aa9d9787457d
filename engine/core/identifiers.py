"""Names for what has a title and no name: identifiers that statements can use and that hide nothing of theirs. Pure."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Collection
from typing import Final

from .toolbox import INJECTED

_NO_WORD: Final = re.compile(r"\W+")


def variable(title: str, taken: Collection[str], *, prefix: str, otherwise: str) -> str:
    """A variable for what has that title: no keyword, no builtin, no injected name, and none of those that are taken.

    `prefix` comes before a name that is one of the first three, or begins with a digit; `otherwise` is the name where
    the title has no letter.
    """
    base = attribute(title).strip("_").lower() or otherwise
    if not base.isidentifier() or keyword.iskeyword(base) or hasattr(builtins, base) or base in INJECTED:
        base = f"{prefix}{base}"
    return numbered(base if base.isidentifier() else otherwise, taken)


def attribute(title: str) -> str:
    """The title with an underscore in the place of what no identifier holds, in the form in which Python compares
    names; perhaps empty, or beginning with a digit."""
    return _NO_WORD.sub("_", unicodedata.normalize("NFKC", title))


def numbered(base: str, taken: Collection[str]) -> str:
    """The name, with a number from 2 on where it is taken."""
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
