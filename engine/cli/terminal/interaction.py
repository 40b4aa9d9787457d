"""A person at a terminal and a session: reads a line, shows its turn, then reads the next line.

Owns what Ctrl-C and Ctrl-D do at each moment, and asks the person for permission and for answers. If the person leaves
during a turn, it is cancelled and ends before the session is closed, without a question. Must not know what an event
looks like (`transcript`) nor how keys arrive (`keyboard`). Called by `program`.
"""

from __future__ import annotations

import asyncio
import os
import os.path
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from anyio.abc import TaskGroup
from msgspec.structs import replace
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from ...core.errors import EngineError
from ...core.settings import DEFAULT_MODEL
from ...core.text import printable, visible
from ...log.events.execution import ExecutionFinished
from ...log.events.session import ContextMeasured, ModelCallEnded, ProjectionSent, UsageReported
from ...log.forms import DECLINED, Field, Form, FormAnswer, Value, problem_of_value
from ...log.forms import DISMISSED as DISMISSED_FORM
from ...log.permissions import (
    PermissionAnswer,
    PermissionQuestion,
)
from ...log.redaction import Redactor
from ...session.journal import Item
from ...session.policy import MODES
from ...session.requests import Ticket
from ...session.session import Session
from ..output import shown
from . import rendering
from .drawn_pictures import Draw, draw_nothing
from .keyboard import ESCAPE, PASTE, Answers, Keyboard, LineEditor, TypedHistory
from .questions import (
    ANSWER,
    DISMISSED,
    EXPLAIN,
    REFUSE,
    answered,
    chosen,
    explained,
    field_shown,
    unfit,
    unknown,
    value_typed,
)
from .rendering import Fragment, Line, wrap_line, wrapped
from .screen import FRAME_SECONDS, Pump, Screen, Waiting
from .transcript import Transcript
from .typed_text import LOCAL_COMMANDS, local_command_in, local_help, with_mentions

Usage = ProjectionSent | ModelCallEnded | ContextMeasured | UsageReported
"""The events that report how full the context is."""


class Interaction:
    """One session on one terminal, until the person leaves.

    Args:
        model: the setting; with `direct`, what is typed runs as Python.
        lost: called if nothing can be shown any more.
    """

    def __init__(
        self,
        session: Session,
        screen: Screen,
        transcript: Transcript,
        *,
        source: Input,
        output: Output,
        model: str,
        state_dir: Path,
        redactor: Redactor,
        in_colour: bool,
        lost: Callable[[OSError], None],
        draw: Draw = draw_nothing,
    ) -> None:
        highlight = rendering.python if in_colour else None
        self._session = session
        self._screen = screen
        self._transcript = transcript
        self._output = output
        self._given_model = model
        self._is_leaving = False
        self._ticket: Ticket | None = None
        self._usage = _last_usage(session)
        self._waiting = Waiting(lambda: model_name(self._model))
        self._timer: asyncio.TimerHandle | None = None
        self._lost = lost
        self._draw = draw
        self._keyboard = Keyboard(source, self.interrupt, self._leave)
        self._pump = Pump(session.subscribe(), self._show, lost)
        self._editor = LineEditor(
            source,
            output,
            history=TypedHistory(state_dir, redactor),
            facts=session,
            is_python=lambda: self._is_python,
            highlight=highlight,
            status=self._status,
            next_mode=self._next_mode,
            open_folded=self._open_folded,
        )
        asking = self._keyboard, screen, transcript, self._pump
        session.attach(AskingPermissions(*asking), None, AskingForms(*asking))

    async def run(self, tasks: TaskGroup) -> None:
        """Read and run lines until the person leaves; output is shown in `tasks`.

        The session stays open.
        """
        self._write(wrapped(greeting(self._model), self._screen.columns))
        tasks.start_soon(self._pump.run)
        self._session.connect()  # so that Tab offers the slash commands of files
        while not self._is_leaving:
            text = await self._editor.read(self._prompt)
            if text is None:
                break
            if text.strip():
                await self._carry_out(text)

    def interrupt(self) -> None:
        """Handle Ctrl-C: cancel the turn that runs, or clear the line."""
        if self._ticket is None:
            self._editor.clear()
        else:
            self._session.cancel()

    def _leave(self) -> None:
        self._is_leaving = True
        self._session.cancel()

    # --- one turn -----------------------------------------------------------------------------------------------------

    async def _carry_out(self, text: str) -> None:
        self._transcript.begin()
        try:
            command, argument = local_command_in(text)
            if command is None:
                await self._turn(text)
                if text.strip() == "/help":
                    self._write(self._transcript.answer(local_help()))
                return
            answer = command.run(self._session, argument)
            self._is_leaving = answer is None
            self._write(self._transcript.answer(answer) if answer else [])
        except EngineError as error:
            message = wrapped([("error", f"rewindow: {visible(str(error))}\n")], self._screen.columns, "  ")
            self._write([*self._transcript.finish_line(), *message])

    async def _turn(self, text: str) -> None:
        """Run a turn and show all of it.

        Raises:
            EngineError: the turn cannot be run or recorded.
        """
        self._ticket = self._session.accept(text if self._is_python else with_mentions(text, self._session.cwd))
        self._waiting.begin(time.monotonic())
        self._animate()
        try:
            with self._keyboard.watched(self._output), self._screen.below(self._below):
                end = await self._ticket.end()
                await self._pump.finished(self._session, end)
        finally:
            self._ticket = None
            if self._timer is not None:
                self._timer.cancel()
        self._write(self._transcript.finish_line())
        if end.failure is not None:
            raise end.failure

    def _show(self, item: Item) -> None:
        if isinstance(item, Usage):
            self._usage = item
        self._waiting.see(item, time.monotonic())
        shown = self._transcript.show(item)
        self._write(shown)
        if shown and isinstance(item, ExecutionFinished):
            for picture in item.pictures:
                self._screen.draw(self._draw(picture))

    def _write(self, fragments: list[Fragment]) -> None:
        self._screen.write(fragments)

    # --- the lines below the transcript while a turn runs -------------------------------------------------------------

    def _below(self) -> list[Line]:
        width = self._screen.columns
        waited = self._waiting.line(time.monotonic(), width)
        room = max(self._screen.lines - 2, 1)
        return [*self._transcript.tail()[-room:], *([waited] if waited else [])]

    def _animate(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FRAME_SECONDS, self._animate)
        try:
            self._screen.refresh()
        except OSError as error:
            self._timer.cancel()
            self._lost(error)

    def _open_folded(self) -> None:
        number = self._transcript.last_folded
        if number is None:
            return
        self._transcript.begin()
        self._write(self._transcript.answer(LOCAL_COMMANDS["open"].run(self._session, str(number)) or ""))

    # --- the line -----------------------------------------------------------------------------------------------------

    @property
    def _prompt(self) -> str:
        """Without a model, the statement's number on the timeline."""
        return f"{len(self._session.cells) + 1}> " if self._is_python else "> "

    @property
    def _model(self) -> str:
        """The model, which a command may change."""
        return self._session.model or self._given_model

    @property
    def _is_python(self) -> bool:
        return self._model == DEFAULT_MODEL

    def _status(self) -> str:
        usage = self._usage
        tokens = f"{usage.used:,} of {usage.size:,} tokens" if usage is not None else "no tokens used yet"
        directory = shown(self._session.cwd)
        home = os.path.expanduser("~")
        short = f"~{directory.removeprefix(home)}" if directory.startswith(f"{home}/") else directory
        return f" {self._session.options.mode} (Shift-Tab) | {tokens} | {model_name(self._model)} | {short}"

    def _next_mode(self) -> None:
        modes = list(MODES)
        next_mode = modes[(modes.index(self._session.options.mode) + 1) % len(modes)]
        with suppress(EngineError):
            self._session.set_mode(next_mode)


def _last_usage(session: Session) -> Usage | None:
    return next((event for event in reversed(session.path) if isinstance(event, Usage)), None)


_ASK_REASON: Final = "  Why not? (Enter: no reason) "
_ENDS: Final = (ESCAPE, "c-m", "c-j")
_ERASES: Final = ("c-h", "backspace")


class AskingPermissions:
    """Asks the person, after everything before the question was shown.

    A person decides by what is on the screen. The texts and keys of a question are in `questions`.
    """

    def __init__(self, keyboard: Keyboard, screen: Screen, transcript: Transcript, pump: Pump) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._transcript = transcript
        self._pump = pump

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Return the person's answer. Cancelling this call withdraws the question."""
        await self._pump.shown(question.seq)
        self._screen.write(self._transcript.question(question))
        with self._screen.below(tuple), self._keyboard.asked() as answers:
            return await self._read_answer(question, answers)

    async def _read_answer(self, question: PermissionQuestion, answers: Answers) -> PermissionAnswer:
        explained_key = ""
        while (key := await answers.next()) != ESCAPE:
            option = chosen(question, key)
            if option is None:
                if key != explained_key:
                    self._write_wrapped(explained(question) if key == EXPLAIN else unknown(question, key))
                explained_key = key
                continue
            reason = await self._reason(answers) if option.key == REFUSE else ""
            if reason is None:
                break
            self._write_wrapped(answered(option, reason))
            return replace(option.answer, reason=reason)
        self._screen.write(answered(None))
        return DISMISSED

    async def _reason(self, answers: Answers) -> str | None:
        """Return the reason that the person types, or None if they press Escape."""
        return await _typed_line(self._screen, answers, _ASK_REASON)

    def _write_wrapped(self, fragments: list[Fragment]) -> None:
        self._screen.write(wrapped(fragments, self._screen.columns, "       "))


async def _typed_line(screen: Screen, answers: Answers, label: str) -> str | None:
    """Return the line that the person types after `label`, or None if they press Escape."""
    typed = ""
    with screen.below(lambda: wrap_line([("strong", label), ("", typed)], screen.columns or 80)):
        while (key := await answers.next()) not in _ENDS:
            if key in _ERASES:
                typed = typed[:-1]
            elif key == PASTE:
                typed += printable(" ".join(answers.pasted.split()))
            elif len(key) == 1 and key.isprintable():
                typed += key
            screen.refresh()
    return None if key == ESCAPE else " ".join(typed.split())


class AskingForms:
    """Asks the person for answers, field by field, after everything before the question was shown."""

    def __init__(self, keyboard: Keyboard, screen: Screen, transcript: Transcript, pump: Pump) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._transcript = transcript
        self._pump = pump

    async def fill(self, form: Form) -> FormAnswer:
        """Return the person's answer. Cancelling this call withdraws the question."""
        await self._pump.shown(form.seq)
        self._screen.write(self._transcript.form(form))
        values: dict[str, Value] = {}
        with self._screen.below(tuple), self._keyboard.asked() as answers:
            fields = form.fields or (_CONSENT,)
            for field in fields:
                self._write(field_shown(field, is_only=len(fields) == 1))
                value = await self._value(field, answers)
                if isinstance(value, FormAnswer):
                    return value
                if value is not None:
                    values[field.name] = value
        if not form.fields:
            return FormAnswer(outcome="accepted") if values[_CONSENT.name] else DECLINED
        return FormAnswer(outcome="accepted", values=values)

    async def _value(self, field: Field, answers: Answers) -> Value | FormAnswer | None:
        """Return the value of a field, None for one that is left out, or the answer that ends the form."""
        while (typed := await _typed_line(self._screen, answers, ANSWER)) is not None:
            if not typed:
                return DECLINED if field.is_required else None
            value = value_typed(field, typed)
            problem = problem_of_value(field, value)
            self._write(unfit(problem) if problem else [("quiet", f"  {typed}\n")])
            if not problem:
                return value
        return DISMISSED_FORM

    def _write(self, fragments: list[Fragment]) -> None:
        self._screen.write(wrapped(fragments, self._screen.columns, "       "))


_CONSENT: Final = Field(name="consent", type="boolean", is_required=True)
"""Asked in place of a form without fields."""
_KEYS: Final = "Enter sends, Meta-Enter adds a line, Ctrl-C cancels, Ctrl-D leaves: /help"
_NO_MODEL: Final = "No model is set, so your input runs as Python. --model sets a model."
_MODEL: Final = "type a task for it."


def model_name(model: str) -> str:
    """Return a short name: a provider's model, a script's file name."""
    kind, _, name = model.partition(":")
    if kind == "scripted":
        name = os.path.basename(name)
    return "no model" if model == DEFAULT_MODEL else shown(name or model)


def greeting(model: str) -> list[Fragment]:
    """Return the first screen: two lines on the model and the keys."""
    first = _NO_MODEL if model == DEFAULT_MODEL else f"Model {model_name(model)}: {_MODEL}"
    return [("", f"{first}\n"), ("quiet", f"{_KEYS}\n")]
