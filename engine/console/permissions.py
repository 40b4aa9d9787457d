"""Asks the person at the terminal for permission, on behalf of the engine; or says that nobody can be asked.

Implements the engine's port. What is asked and which keys answer is in `questions`.
"""

from __future__ import annotations

import sys
from typing import Final

from ..ports.permissions import PermissionAnswer, PermissionQuestion
from .keyboard import ESCAPE, Keyboard
from .pump import Pump
from .questions import DISMISSED, answered, chosen, options
from .screen import Screen
from .transcript import Transcript

_REFUSED: Final = (
    "rewindow: nobody can be asked here, so what would ask was refused;"
    " `--mode auto` lets statements run without a question\n"
)


class AskingPermissions:
    """Asks when everything before the question was shown, because a person decides by what is on the screen."""

    def __init__(self, keyboard: Keyboard, screen: Screen, transcript: Transcript, pump: Pump) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._transcript = transcript
        self._pump = pump

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """The person's answer. Cancelling the wait withdraws the question."""
        await self._pump.shown(question.seq)
        self._screen.write(self._transcript.question(question))
        key = await self._keyboard.answer("".join(option.key for option in options(question)))
        option = None if key == ESCAPE else chosen(question, key)
        self._screen.write(answered(option))
        return DISMISSED if option is None else option.answer


class NobodyToAsk:
    """Answers every question with no, and says once on standard error how to allow it."""

    def __init__(self) -> None:
        self.has_refused = False

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """No."""
        del question
        if not self.has_refused:
            self.has_refused = True
            sys.stderr.write(_REFUSED)
        return PermissionAnswer(outcome="rejected", asked=False)
