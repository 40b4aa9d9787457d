"""Long pasted texts, for which a short label stands in the line that is edited; they are put back when it is sent.

Pure. Called by the line editor, for which a screen of pasted text would be slow and of no use to the person.
"""

from __future__ import annotations

import re
from typing import Final

from ...core.text import plural

SHORT_CHARS: Final = 4_000
SHORT_LINES: Final = 60
"""What is longer, or has more lines, gets a label."""
_LABEL: Final = re.compile(r"\[pasted text (\d+): [\d,]+ lines?\]")


class Pastes:
    """The long texts that were pasted in one run of the program, by their number."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def insert(self, text: str) -> str:
        """What stands in the line for a pasted text: itself, or its label."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if len(text) <= SHORT_CHARS and lines <= SHORT_LINES:
            return text
        self._texts.append(text)
        return f"[pasted text {len(self._texts)}: {lines:,} {plural(lines, 'line')}]"

    def expanded(self, line: str) -> str:
        """The line with the text of each label; a label that stands for none stays."""
        return _LABEL.sub(lambda match: self._text(int(match[1]), match[0]), line)

    def _text(self, number: int, label: str) -> str:
        return self._texts[number - 1] if 0 < number <= len(self._texts) else label
