"""What a text uses and does not declare: its identifiers, counted, for overviews of many files.

Pure. Must not know a grammar. Called by `grammars` with the words of a tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

_WORDS: Final = 200_000
"""Identifiers that are counted."""
_REFERENCES: Final = 1_500
"""Names that are told, those that are used most."""
_SHORTEST: Final = 3
_LONGEST: Final = 64


def counted(words: Iterable[bytes], own: Collection[str]) -> dict[str, int]:
    """How often each word in UTF-8 occurs that is a name and none of `own`; those most used."""
    found = Counter(islice(words, _WORDS))
    told = ((word.decode("utf-8", "replace"), count) for word, count in found.most_common())
    return dict(islice(((word, count) for word, count in told if _is_name(word) and word not in own), _REFERENCES))


def _is_name(word: str) -> bool:
    return _SHORTEST <= len(word) <= _LONGEST and word.replace("-", "_").replace("$", "_").isidentifier()
