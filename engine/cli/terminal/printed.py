"""What a running statement prints, as it may be shown while more of it is on the way.

A terminal must be told nothing by a statement: colours go, other control characters become visible, and of what was
overwritten in a line the last remains (`text.as_printed`). That is known only of a line that is complete. So a line is
shown in pieces as long as it holds no control character, and otherwise when it ends. Pure; called by `transcript`.
"""

from __future__ import annotations

from ...core.text import as_printed, visible


class Printed:
    """One stream of one execution."""

    def __init__(self) -> None:
        self._line = ""
        """The last line as it came, without the end it may still get."""
        self._shown = ""
        """What was shown of it."""

    def add(self, piece: str) -> str:
        """What can be shown now that this has come."""
        whole, newline, self._line = (self._line + piece).rpartition("\n")
        text = self._rest(whole + newline) if newline else ""
        if visible(self._line) == self._line:
            text += self._line[len(self._shown) :]
            self._shown = self._line
        return text

    def end(self) -> str:
        """What is left when nothing more comes."""
        text, self._line = self._rest(self._line), ""
        return text

    def _rest(self, text: str) -> str:
        """What of the text, which begins with the last line, was not shown yet."""
        seen, shown, self._shown = as_printed(text), self._shown, ""
        # Where the shown part was overwritten, the line is shown once more.
        return seen.removeprefix(shown) if seen.startswith(shown) else "\n" + seen
