"""Asks the person at the terminal for permission, on behalf of the engine.

Implements the engine's port. What is asked and which keys answer is in `questions`.
"""

from __future__ import annotations

import sys
from typing import Final

from msgspec.structs import replace

from ...core.text import plural
from ...log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionAnswer,
    PermissionQuestion,
    PermissionSubject,
    RebuildSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
)
from ..output import shown, shown_line
from .keyboard import ESCAPE, Answers, Keyboard, Pump
from .questions import DISMISSED, EXPLAIN, REFUSE, answered, chosen, explained, unknown
from .rendering import Fragment, wrap_line, wrapped
from .screen import Screen
from .transcript import Transcript

_WHY: Final = "  Why not? (Enter: no reason) "
_ENDS: Final = (ESCAPE, "c-m", "c-j")
_ERASES: Final = ("c-h", "backspace")


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
        with self._screen.below(tuple), self._keyboard.asked() as answers:
            return await self._decided(question, answers)

    async def _decided(self, question: PermissionQuestion, answers: Answers) -> PermissionAnswer:
        is_said = ""
        while (key := await answers.next()) != ESCAPE:
            option = chosen(question, key)
            if option is None:
                if key != is_said:
                    self._write(explained(question) if key == EXPLAIN else unknown(question, key))
                is_said = key
                continue
            reason = await self._reason(answers) if option.key == REFUSE else ""
            if reason is None:
                break
            self._write(answered(option, reason))
            return replace(option.answer, reason=reason)
        self._screen.write(answered(None))
        return DISMISSED

    async def _reason(self, answers: Answers) -> str | None:
        """Why not, in a line that the person types; None where they give the turn up."""
        typed = ""
        with self._screen.below(lambda: wrap_line([("strong", _WHY), ("", typed)], self._screen.columns or 80)):
            while (key := await answers.next()) not in _ENDS:
                if key in _ERASES:
                    typed = typed[:-1]
                elif len(key) == 1 and key.isprintable():
                    typed += key
                self._screen.refresh()
        return None if key == ESCAPE else " ".join(typed.split())

    def _write(self, fragments: list[Fragment]) -> None:
        self._screen.write(wrapped(fragments, self._screen.columns, "       "))


# nobody:
# Nobody to ask: every question is answered with no, and listed. Implements the engine's port for one prompt.
#
# Must not know what becomes of a refusal. Called by `one_prompt`.

_REFUSED: Final = (
    "rewindow: nobody can be asked here, so what would ask was refused;"
    " `--mode auto` lets statements run without a question\n"
)
_CHARS: Final = 100


class NobodyToAsk:
    """Answers every question with no, and says once on standard error how to allow it."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """What was refused, a line for each question."""

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """No."""
        if not self.refused:
            sys.stderr.write(_REFUSED)
        self.refused.append(subject_line(question.subject))
        return PermissionAnswer(outcome="rejected", asked=False)


def subject_line(subject: PermissionSubject) -> str:
    """Return what would happen, as one line."""
    match subject:
        case RebuildSubject(statements=statements):
            return f"run {len(statements):,} earlier {plural(len(statements), 'statement')} again"
        case StatementSubject(source=source):
            return f"run the statement {shown_line(source, _CHARS)}"
        case FileSubject(path=path):
            return f"write {shown(path)}"
        case TreeSubject(act=act):
            return shown_line(act, _CHARS)
        case CommandSubject(command=command):
            return f"run the command {shown_line(command, _CHARS)}"
        case ServerCallSubject(server=server, tool=tool):
            return f"call {shown(tool)} of the MCP server {shown(server)}"
