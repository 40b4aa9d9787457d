"""What an import made of a conversation, counted: what became events, what became notes in texts, what was left out.

Must not know any format. Filled while reading, shown by `rewindow import`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

_KINDS: Final = 12
"""Kinds that one line names."""


class Report:
    """Counts by the name that a person would use; each line of `lines` is a sentence for that person."""

    def __init__(self) -> None:
        self.imported: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.system_chars = 0

    def lines(self) -> Iterator[str]:
        """At most four lines, the first always there."""
        yield f"imported: {_listed(self.imported)}"
        if self.system_chars:
            yield (
                f"system prompt: {self.system_chars:,} characters, kept as an attachment of the first message;"
                " the agent has instructions of its own"
            )
        if self.noted:
            yield f"turned into notes: {_listed(self.noted)}"
        if self.ignored:
            yield f"ignored: {_listed(self.ignored)}"


def _listed(counts: Counter[str]) -> str:
    shown = [f"{name} {count:,}" for name, count in counts.most_common(_KINDS)]
    if len(counts) > _KINDS:
        shown.append(f"and other kinds {len(counts) - _KINDS:,}")
    return ", ".join(shown) or "nothing"
