"""One prompt without a person: its turn is carried out, its result is printed, and how it ended is an exit code.

Nobody can be asked, so every question is answered with no. Owns what each end of a turn means for a script. Must not
know formats. Made by `cli.run`, carried out by `program`.
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
from ...core.settings import DEFAULT_MODEL
from ...core.text import visible
from ...log.events import Event
from ...log.events.conversation import RunStop
from ...log.file_history import finished_lines
from ...log.user_message import compose
from ...session.commands.table import command_of
from ...session.publishing.signals import Item
from ...session.session import Session
from ...session.tickets import TurnEnd
from ..output.exit_codes import ExitCode
from .endings import turn_ending
from .fragments import painted
from .mentions import with_mentions
from .nobody import NobodyToAsk
from .prompt_output import JsonOutput
from .prompt_result import PromptFold, PromptKind, PromptResult
from .pump import Pump
from .transcript import Transcript

_NO_MODEL: Final = "the prompt is not Python, and no language model is set; set one with --model or REWINDOW_MODEL"
_SIGNALLED: Final = (ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.HANGUP)


class OnePrompt:
    """One prompt on its way. After the session is closed, `finish` prints its result.

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
        self._is_told = False
        """Whether standard error has the error already."""

    def kind(self, model: str) -> PromptKind:
        """Return what the prompt is for a session with that model."""
        command, _ = command_of(compose([self._text]))
        if command is not None:
            return "statement" if command.run is None else "command"
        return "statement" if model == DEFAULT_MODEL else "task"

    def lacks_model(self, model: str, setup: ModelSetup | None) -> bool:
        """Whether the prompt needs a model that is not set up. Then there is nothing to carry out."""
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
        """Cancel the turn, so that the exit code is `code`; False where no turn runs or it was cancelled before."""
        if self._cancel is None or self._signalled is not None:
            return False
        self._signalled = code
        self._cancel()
        return True

    async def carry_out(
        self, session: Session, model: str, transcript: Transcript, tasks: TaskGroup, lost: Callable[[OSError], None]
    ) -> None:
        """Carry out the prompt, until all of it was shown.

        Args:
            lost: called with what the output raised.

        Raises:
            EngineError: the turn cannot be carried out or recorded.
            OSError: the output takes nothing.
        """
        kind = self.kind(model)
        fold = self._fold = PromptFold(kind, model != DEFAULT_MODEL, session.statement)
        self._result = replace(self._result, session_id=session.session_id, cwd=session.cwd)
        for line in finished_lines(session.settled, partial(os.path.relpath, start=session.cwd)):
            sys.stderr.write(f"{visible(line)}\n")
        self._output.begin(fold, session.session_id, session.cwd, model)
        pump = Pump(session.subscribe(), partial(self._show, transcript), lost)
        tasks.start_soon(pump.run)
        nobody = NobodyToAsk()
        session.attach(nobody)
        self._cancel = session.cancel
        is_typed = kind != "task"
        ticket = session.accept(self._text if is_typed else with_mentions(self._text, session.cwd))
        end = await ticket.end()
        await pump.finished(session, end)
        if self._is_verbose:
            sys.stderr.write(painted(transcript.finish_line(), False))
        if end.failure is not None:
            raise end.failure
        refused = tuple(nobody.refused)
        code, error = _outcome(end, fold, refused)
        has_traceback = self._output.shows_failures and fold.own is not None and fold.own.exception is not None
        self._is_told = bool(refused) or has_traceback
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
            OSError: the output takes nothing.
        """
        signalled = signalled or (self._signalled if self._result.exit_code == ExitCode.INTERRUPTED else None)
        if signalled is not None:
            self._result = replace(self._result, exit_code=signalled, error="cancelled", stop_reason="cancelled")
        self._end(self._result)
        return ExitCode(self._result.exit_code)

    def fail(self, error: Exception) -> None:
        """Print the result of a prompt that could not be carried out for that error, which the caller reports.

        Raises:
            OSError: the output takes nothing.
        """
        self._is_told = True
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
        if self._result.error is not None and not self._is_told and self._result.exit_code not in _SIGNALLED:
            sys.stderr.write(f"rewindow: {visible(self._result.error)}\n")


def _outcome(end: TurnEnd, fold: PromptFold, refused: Sequence[str]) -> tuple[ExitCode, str | None]:
    """The exit code of a turn, and why it is not 0."""
    if end.unusable:
        return ExitCode.NO_MODEL, end.detail
    if end.cause == "cancelled":
        return ExitCode.INTERRUPTED, "cancelled"
    if end.cause == "error":
        return ExitCode.FAILED, end.detail or "error"
    if end.cause != "end_turn":
        return ExitCode.STOPPED, turn_ending(RunStop(reason="error", cause=end.cause, detail=end.detail)).strip("[]")
    if refused:
        return ExitCode.STOPPED, f"refused, because nobody could be asked: {'; '.join(refused)}"
    if end.refused is not None:
        return ExitCode.FAILED, str(end.refused)
    if end.replay is not None and end.replay.outcome != "completed":
        return ExitCode.FAILED, f"the replay was {end.replay.outcome}: {end.replay.detail}"
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
