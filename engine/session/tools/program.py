"""What a tool would run: the program, whether the user is asked about it, and what the statement gets of its end.

Must not know how programs are run. Returned by the tools that run one; the desk (`session.acts`) asks and runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.programs import CommandOutcome, CommandRequest


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. `asks`: it may change something, so the user is asked, as far as the session's mode does.

    `answer` makes plain data of its end, and may raise OSError or ValueError, which the statement sees. `command` is
    what the user is asked about and shown, where that is not the arguments. `outside`: it is not to be held to what
    statements may do, in a mode that would hold it, and then the user is asked.
    """

    request: CommandRequest
    asks: bool
    answer: Callable[[CommandOutcome], object]
    command: str = ""
    outside: bool = False
