"""The recorded answers of one execution: each question gets its own again, in whatever order a replay asks.

Which question comes first is not the same each time where threads ask. Owns which answer is one to which question. Must
not know how a question is asked. Used by `effects`, which opens one for each statement of a replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from ....core.plain_data import argument_digest
from ....core.toolbox import ROUTED, TOOLS
from ..protocol import Answer, Ask

_WRITING: Final = frozenset((*ROUTED, *(name for name, tool in TOOLS.items() if tool.kind == "edit")))


class Recording:
    """The answers that have not been given again."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._left = {answer.ordinal: answer for answer in answers}
        self._asked: dict[tuple[str, str], deque[int]] = {}
        for answer in self._left.values():
            if answer.question is not None:
                self._asked.setdefault(answer.question, deque()).append(answer.ordinal)

    def title_at(self, ordinal: int) -> str:
        """The words of the question with that number, empty where its answer was given or they are not known."""
        placed = self._left.get(ordinal)
        return "" if placed is None else placed.title

    def has(self, operation: str, arguments: dict[str, object]) -> bool:
        """Whether an answer to exactly that is left."""
        asked = self._asked.get((operation, argument_digest(arguments)), ())
        return any(ordinal in self._left for ordinal in asked)

    def take(self, question: Ask) -> Answer | None:
        """The answer to the same question: the one with its number, else the first that is left; None without one."""
        asked = question.operation, argument_digest(question.arguments)
        placed = self._left.get(question.ordinal)
        if placed is not None and placed.question in (asked, None):
            return self._left.pop(question.ordinal)
        same = self._asked.get(asked, deque())
        while same:
            if (ordinal := same.popleft()) in self._left:
                return self._left.pop(ordinal)
        # What is written may hold the time, or what the file held when it was opened to append to. It was written then,
        # and the answer holds nothing of it, while what was read at another place would be a wrong value.
        if placed is not None and placed.question is not None and asked[0] == placed.question[0] in _WRITING:
            return self._left.pop(question.ordinal)
        return None
