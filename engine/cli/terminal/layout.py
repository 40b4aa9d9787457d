"""Where on the screen the next text goes: whether a line has begun, and what the last block belongs to.

Blocks are divided by an empty line, which is written before the second one, so that none stands at the end. Pure but
for what it remembers. Owned by a transcript.
"""

from __future__ import annotations

from collections.abc import Iterable

from .fragments import Fragment


class Layout:
    """The end of what was written since the user typed last."""

    def __init__(self) -> None:
        self.at_start = True
        """Whether the next character begins a line."""
        self._is_begun = False
        self._block: object = None

    def begin(self) -> None:
        """The user has typed: the screen is at the start of a line, and nothing was written yet."""
        self.at_start, self._is_begun, self._block = True, False, None

    def leave(self) -> None:
        """Whatever comes next is a block of its own."""
        self._block = None

    def finish_line(self) -> list[Fragment]:
        """What brings the screen to the start of a line."""
        return self.said([] if self.at_start else [("", "\n")])

    def whole(self, block: object, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Text that belongs to `block`, with what divides it from the block before."""
        return [*self.enter(block), *self.said(fragments)]

    def enter(self, block: object) -> list[Fragment]:
        """What goes between the last block and this one: the end of a line, and an empty line."""
        if block == self._block:
            return []
        self._block = block
        gap = "" if not self._is_begun else "\n" if self.at_start else "\n\n"
        return self.said([("", gap)])

    def said(self, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Text that follows where the last one ended."""
        result = [(style, text) for style, text in fragments if text]
        if result:
            self.at_start, self._is_begun = result[-1][1].endswith("\n"), True
        return result
