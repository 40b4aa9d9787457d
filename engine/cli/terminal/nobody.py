"""Nobody to ask: every question is answered with no, and listed. Implements the engine's port for one prompt.

Must not know what becomes of a refusal. Called by `one_prompt`.
"""

from __future__ import annotations

import sys
from typing import Final

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
from ..output.printing import shown, shown_line

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
