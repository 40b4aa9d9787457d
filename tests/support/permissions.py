"""A user who has made up their mind: Permissions without an editor."""

from __future__ import annotations

from collections.abc import Iterable

from engine import PermissionAnswer, PermissionQuestion


class FixedPermissions:
    """Answers with the given answers, one after the other, and notes the questions."""

    def __init__(self, answers: Iterable[PermissionAnswer]) -> None:
        self._answers = iter(answers)
        self.questions: list[PermissionQuestion] = []

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.questions.append(question)
        return next(self._answers)
