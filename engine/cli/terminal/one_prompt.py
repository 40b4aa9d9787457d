"""One prompt without a person: runs its turn, prints its result, and returns an exit code.

Owns what each end of a turn means for a script. Since no person can answer, every question is refused. Must not know
the output formats (`prompt_result`). Made by `cli.run`, run by `program`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from anyio.abc import TaskGroup
from msgspec.structs import replace

from ...context.models.local import statement_in
from ...context.models.providers import ModelSetup
from ...core.pictures import Picture, description
from ...core.settings import DEFAULT_MODEL
from ...core.text import visible
from ...log.events import Event
from ...log.events.conversation import RunStop
from ...log.file_history import finished_lines
from ...log.forms import Form, FormAnswer
from ...log.permissions import (
    PermissionAnswer,
    PermissionQuestion,
)
from ...log.user_message import compose
from ...session.commands import CustomNames
from ...session.commands.table import called_name, command_of
from ...session.journal import (
    CommandRow,
    Item,
)
from ...session.requests import ReplayReport, TurnEnd
from ...session.session import Session
from ..commands import ExitCode
from ..output import shown_line
from .prompt_result import JsonOutput, PromptFold, PromptKind, PromptResult
from .questions import subject_line
from .rendering import painted
from .screen import Pump
from .transcript import Transcript, turn_ending
from .typed_text import with_mentions

_NO_MODEL: Final = "the prompt is not Python, and no language model is set; set one with --model or REWINDOW_MODEL"
_SIGNALLED: Final = (ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.HANGUP)


class OnePrompt:
    """One prompt. After the session is closed, `finish` prints its result.

    Args:
        text: what the user gave.
        output: the format of the result.
        is_verbose: whether the transcript of the turn goes to standard error.
    """

    def __init__(self, text: str, output: JsonOutput, *, is_verbose: bool) -> None:
        self._text = text
        self._output = output
        self._is_verbose = is_verbose
        self._started = time.monotonic()
        self._result = PromptResult(exit_code=ExitCode.FAILED)
        self._fold: PromptFold | None = None
        self._cancel: Callable[[], None] | None = None
        self._signalled: ExitCode | None = None
        self._is_reported = False
        """Whether standard error has the error already."""

    def kind(self, model: str, custom: Sequence[CommandRow] = ()) -> PromptKind:
        """Return what the prompt is, in a session with that model and these commands of files and servers."""
        names = CustomNames(frozenset(row.name for row in custom))
        command, _ = command_of(compose([self._text]), names)
        if command is not None:
            return "statement" if command.run is None else "command"
        return "statement" if model == DEFAULT_MODEL else "task"

    def lacks_model(self, model: str, setup: ModelSetup | None) -> bool:
        """Whether the prompt needs a model that is not set up.

        Then the result is known, and the prompt must not be run.
        """
        self._result = replace(self._result, model=model)
        command, _ = command_of(compose([self._text]))
        if command is not None:
            return False
        if model == DEFAULT_MODEL and statement_in(self._text) is None:
            error = _NO_MODEL
        elif setup is not None and not setup.is_done:
            error = setup.failure
        else:
            return False
        self._result = replace(self._result, exit_code=ExitCode.NO_MODEL, error=error)
        return True

    def interrupt(self, code: ExitCode) -> bool:
        """Cancel the turn, and make `code` the exit code.

        Returns False if no turn runs or it was cancelled before.
        """
        if self._cancel is None or self._signalled is not None:
            return False
        self._signalled = code
        self._cancel()
        return True

    async def run(
        self,
        session: Session,
        model: str,
        transcript: Transcript,
        tasks: TaskGroup,
        lost: Callable[[OSError], None],
        picture_line: Callable[[Picture], str] = description,
    ) -> None:
        """Run the prompt, and wait until all of it is shown.

        Args:
            lost: called with the error of the output.
            picture_line: says in a line what a picture shows, and where it is.

        Raises:
            EngineError: the turn cannot be run or recorded.
            OSError: the output cannot be written.
        """
        kind = self.kind(model, await session.list_commands() if called_name(self._text) else ())
        fold = self._fold = PromptFold(kind, model != DEFAULT_MODEL, session.statement, picture_line)
        self._result = replace(self._result, session_id=session.session_id, cwd=session.cwd)
        for line in finished_lines(session.settled, partial(os.path.relpath, start=session.cwd)):
            sys.stderr.write(f"{visible(line)}\n")
        self._output.begin(fold, session.session_id, session.cwd, model)
        pump = Pump(session.subscribe(), partial(self._show, transcript), lost)
        tasks.start_soon(pump.run)
        permissions = RefusingPermissions()
        session.attach(permissions, None, UnansweredForms())
        self._cancel = session.cancel
        is_typed = kind != "task"
        ticket = session.accept(self._text if is_typed else with_mentions(self._text, session.cwd))
        end = await ticket.end()
        await pump.finished(session, end)
        if self._is_verbose:
            sys.stderr.write(painted(transcript.finish_line(), False))
        if end.failure is not None:
            raise end.failure
        refused = tuple(permissions.refused)
        code, error = _outcome(end, fold, refused)
        has_traceback = self._output.shows_failures and fold.own is not None and fold.own.exception is not None
        self._is_reported = bool(refused) or has_traceback
        self._result = replace(self._result, exit_code=code, error=error, stop_reason=end.cause, refused=refused)

    def _show(self, transcript: Transcript, item: Item) -> None:
        assert self._fold is not None
        if isinstance(item, Event):
            self._fold.apply(item)
        self._output.show(item)
        if self._is_verbose:
            sys.stderr.write(painted(transcript.show(item), False))
            sys.stderr.flush()

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, signalled: ExitCode | None) -> ExitCode:
        """Print the result, and return the exit code.

        Args:
            signalled: the code of the signal that ended the program before the turn had ended.

        Raises:
            OSError: the output cannot be written.
        """
        signalled = signalled or (self._signalled if self._result.exit_code == ExitCode.INTERRUPTED else None)
        if signalled is not None:
            self._result = replace(self._result, exit_code=signalled, error="cancelled", stop_reason="cancelled")
        self._end(self._result)
        return ExitCode(self._result.exit_code)

    def fail(self, error: Exception) -> None:
        """Print the result of a prompt that failed with an error.

        The caller reports the error.

        Raises:
            OSError: the output cannot be written.
        """
        self._is_reported = True
        self._end(replace(self._result, exit_code=ExitCode.FAILED, error=str(error)))

    def _end(self, result: PromptResult) -> None:
        if self._fold is not None:
            is_error = result.error is not None and self._fold.kind != "task" and self._fold.own is None
            result = replace(
                result,
                answer="" if is_error else self._fold.answer,
                statements=self._fold.statements,
                files=self._fold.files,
                usage=self._fold.usage,
            )
        self._result = replace(result, duration_ms=round((time.monotonic() - self._started) * 1000))
        self._output.end(self._result)
        if self._result.error is not None and not self._is_reported and self._result.exit_code not in _SIGNALLED:
            sys.stderr.write(f"rewindow: {visible(self._result.error)}\n")


def _outcome(end: TurnEnd, fold: PromptFold, refused: Sequence[str]) -> tuple[ExitCode, str | None]:
    """Return the exit code of a turn, and the reason if it is not 0."""
    if end.unusable:
        return ExitCode.NO_MODEL, end.detail
    if end.cause == "cancelled":
        return ExitCode.INTERRUPTED, "cancelled"
    if end.cause == "error":
        return ExitCode.FAILED, end.detail or "error"
    if end.cause != "end_turn":
        return ExitCode.STOPPED, turn_ending(RunStop(reason="error", cause=end.cause, detail=end.detail)).strip("[]")
    if refused:
        return ExitCode.STOPPED, f"refused, because this run cannot ask for permission: {'; '.join(refused)}"
    if end.refused is not None:
        return ExitCode.FAILED, str(end.refused)
    if isinstance(end.result, ReplayReport) and end.result.outcome != "completed":
        return ExitCode.FAILED, f"the replay was {end.result.outcome}: {end.result.detail}"
    return _statement_outcome(fold) if fold.kind == "statement" else (ExitCode.DONE, None)


def _statement_outcome(fold: PromptFold) -> tuple[ExitCode, str | None]:
    own = fold.own
    if own is None:
        return ExitCode.FAILED, fold.answer or "the statement did not run"
    if own.status == "timeout":
        return ExitCode.STOPPED, f"the statement was stopped after {own.time_ms / 1000:.1f} s (statement_seconds)"
    if own.status != "ok":
        return ExitCode.FAILED, fold.statements[-1].exception or own.status
    return ExitCode.DONE, None


REFUSED: Final = (
    "rewindow: this run cannot ask you, so everything that needs permission was refused;"
    " with `--mode auto` statements run without asking\n"
)
UNANSWERED: Final = "rewindow: this run cannot ask you, so this question has no answer: {}\n"
CANNOT_ASK: Final = "this run cannot ask the user"
_CHARS: Final = 100


class UnansweredForms:
    """Answers no question, and says so on standard error."""

    async def fill(self, form: Form) -> FormAnswer:
        """Decline."""
        sys.stderr.write(UNANSWERED.format(shown_line(form.text, _CHARS)))
        return FormAnswer(outcome="declined", note=CANNOT_ASK)


class RefusingPermissions:
    """Refuses every question.

    The first time, it says on standard error how to allow it.
    """

    def __init__(self) -> None:
        self.refused: list[str] = []
        """A line for each refused question."""

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Refuse."""
        if not self.refused:
            sys.stderr.write(REFUSED)
        self.refused.append(subject_line(question.subject))
        return PermissionAnswer(outcome="rejected", asked=False)
