"""Recognises a text that was read without its secrets and is about to be written back like that.

A model never sees a secret, but `***` in its place. What it writes with that in it would replace the secret by three
asterisks. As a mark counts what stands alone as a value does (`KEY=***`, `"***"`), not the emphasis or the rule of a
Markdown text, and only what was not in the file before. Pure. Called before a file is written.
"""

from __future__ import annotations

import re
from typing import Final

from .redactor import HIDDEN

_MARK: Final = re.compile(rf"(?<![\w*]){re.escape(HIDDEN)}(?![\w*])")
_RULE: Final = re.compile(rf"(?m)^[ \t]*{re.escape(HIDDEN)}[ \t]*\r?$")


def marked_line(before: bytes, after: bytes) -> int | None:
    """The number of the first line, from 1, with a mark, where there are more than before; None where there are not."""
    if HIDDEN.encode() not in after:
        return None
    text = after.decode("utf-8", "replace")
    marks = _marks(text)
    if len(marks) <= len(_marks(before.decode("utf-8", "replace"))):
        return None
    return text.count("\n", 0, marks[0]) + 1


def _marks(text: str) -> list[int]:
    return [found.start() for found in _MARK.finditer(_RULE.sub(lambda rule: " " * len(rule[0]), text))]
