"""What rendering a node gives: text within a budget, and what of the document it shows."""

from __future__ import annotations

from dataclasses import dataclass

import xxhash


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RenderedView:
    """A render. Non-empty `text` ends with a newline; `tokens` are exact.

    `first_line` and `last_line` count from 1 and are None where no line of the document is shown. `whole` is False
    where something was left out for want of tokens.
    """

    text: str
    tokens: int
    first_line: int | None = None
    last_line: int | None = None
    whole: bool = True

    @property
    def digest(self) -> str:
        """xxh3 hex of the text."""
        return xxhash.xxh3_64_hexdigest(self.text.encode("utf-8", "surrogatepass"))

    def __repr__(self) -> str:
        return self.text
