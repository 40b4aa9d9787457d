"""`rewindow run` put together: settings, engine, the chosen session, and a person or one prompt."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ...core.errors import EngineError, InvalidRequestError, SessionNotFoundError
from ...core.ids import SessionId
from ...core.settings import Settings
from ...core.text import cut_line, more, plural
from ...log.events import AnyEvent
from ...log.events.conversation import UserMessage
from ...log.events.execution import StatementRecorded
from ...runtime.zygote import Zygote
from ...session.host import Host
from ...session.registry import SHOWN_IN_SESSION, Sessions
from ...session.session import Session
from ..complaints import ExitCode, abandon_output
from ..output import shown
from . import rendering
from .one_prompt import OnePrompt
from .rendering import Fragment, shown_markdown
from .screen import Screen, can_move, shows_colours
from .transcript import Reading, Transcript

# Which session a person means: a new one, one by the start of its id, or the latest of a directory.

_MOST_NAMED = 5
_UNUSED_EVENTS = 2
"""How many a session has at most in which nothing was asked: it was opened, and its mode was set."""


async def choose(
    sessions: Sessions, start: str | None, cwd: str, goes_on: bool, moved_to: str | None
) -> tuple[Session, str | None, bool]:
    """The session, its title, and whether it was there before.

    Args:
        start: its id, or the start of it; None for a new one.
        cwd: the directory of a new one.
        goes_on: without `start`, the latest of `cwd` instead of a new one.
        moved_to: the directory in which one that was there goes on; None for where it was.

    Raises:
        SessionNotFoundError, SessionInUseError, StoreError.
        InvalidRequestError: several sessions are meant, or none.
    """
    if start is None and not goes_on:
        return await sessions.create(cwd), None, False
    if start is None:
        # Also one without a title, which has only commands and statements of the user's.
        rows = [row for row in await sessions.rows(cwd=cwd) if row.title is not None or row.events > _UNUSED_EVENTS]
        if not rows:
            raise InvalidRequestError(f"no session of {shown(cwd)} can go on; `rewindow run` begins one")
    else:
        rows = [row for row in await sessions.rows() if row.session_id.startswith(start)]
        if not rows:
            raise SessionNotFoundError(SessionId(start))
        if len(rows) > 1:
            names = ", ".join(row.session_id for row in rows[:_MOST_NAMED])
            raise InvalidRequestError(f"{start!r} is the start of {len(rows)} sessions: {names}; give more of it")
    row = rows[0]
    return await sessions.load(row.session_id, moved_to), row.title, True


# past:
# What a person is shown who comes back to a session: which one it is, and how it ended.
#
# Pure. Called by `program`.

SHOWN_EXCHANGES: Final = 3
"""Of the messages of the user, so many are shown, with what came of each."""
SHOWN_LINES: Final = 200
"""Of all that, the last ones."""
_TITLE_CHARS: Final = 80


def heading(session_id: SessionId, cwd: str, title: str | None, events: Sequence[AnyEvent]) -> list[Fragment]:
    """One line on a session that goes on."""
    count = sum(isinstance(event, StatementRecorded) for event in events)
    named = f" {cut_line(shown(title), _TITLE_CHARS)!r}" if title else ""
    about = f" in {shown(cwd)}, {count:,} {plural(count, 'statement')}"
    return [("strong", f"Session {session_id}{named}"), ("quiet", f"{about}\n")]


def last_exchanges(events: Sequence[AnyEvent], transcript: Transcript) -> Iterator[Fragment]:
    """What was said and done since the user's last messages, and how much there was before."""
    transcript.remember(events)
    said = [place for place, event in enumerate(events) if isinstance(event, UserMessage)]
    if not said:
        return
    before = len(said) - SHOWN_EXCHANGES
    if before > 0:
        yield "quiet", f"... {before:,} earlier {plural(before, 'message')}, see `rewindow show`\n"
    lines = _lines(_shown(events[said[-SHOWN_EXCHANGES:][0] :], transcript))
    if len(lines) > SHOWN_LINES:
        yield "quiet", f"{more(len(lines) - SHOWN_LINES, 'line', 'above')}\n"
    for line in lines[-SHOWN_LINES:]:
        yield from line
    yield "", "\n"


def _shown(events: Sequence[AnyEvent], transcript: Transcript) -> Iterator[Fragment]:
    for event in events:
        yield from transcript.show_past(event)
    yield from transcript.finish_line()


def _lines(fragments: Iterable[Fragment]) -> list[list[Fragment]]:
    lines: list[list[Fragment]] = [[]]
    for style, text in fragments:
        for line in io.StringIO(text, newline="\n"):
            lines[-1].append((style, line))
            if line.endswith("\n"):
                lines.append([])
    return lines if lines[-1] else lines[:-1]


# program:
# `rewindow run` put together: settings, engine, the session that is meant, and a person or one prompt.
#
# Owns the life of the process: what signals mean, that the session is closed whatever happens, and the exit code.
# Called by `cli.run`, which has read the command line.
#
# Nothing that is raised inside may pass through the engine's task group, which would wrap it. So it is kept, the
# engine is closed, and it is raised behind that.

_SIGNALLED: Final = 128
"""Added to the number of the signal that ended the program, as shells do."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks for: see `cli.run`. `prompt` None: a person types."""

    session: str | None
    cwd: str
    goes_on: bool
    moved_to: str | None
    mode: str | None
    prompt: OnePrompt | None


class Program:
    """One run of the command."""

    def __init__(self, wanted: Wanted, settings: Settings, environ: Mapping[str, str]) -> None:
        self._wanted = wanted
        self._settings = settings
        self._in_colour = shows_colours(environ) and wanted.prompt is None
        self._environ = environ
        self._screen = Screen(self._in_colour, can_move(environ) and wanted.prompt is None)
        self._is_python = settings.model == "direct"
        self._scope: anyio.CancelScope | None = None
        self._failure: EngineError | OSError | None = None
        self._code: int = ExitCode.DONE
        # A prompt that has no session yet is given up.
        self._interrupt: Callable[[], None] = _nothing if wanted.prompt is None else self._stop_prompt

    def run(self) -> int:
        """Runs to the end; the exit code. Raises EngineError, OSError."""
        _log_what_nobody_is_shown(shows_session=self._wanted.prompt is None)
        zygote = Zygote.spawn()  # first, because it starts up beside us
        try:
            # Without a model too, because a command needs none, and a prompt says so by its exit code.
            must_have_model = self._wanted.prompt is None
            host = Host(self._settings, self._environ, zygote=zygote, must_have_model=must_have_model)
        except BaseException:
            zygote.close()
            raise
        anyio.run(self._in_host, host)
        if self._code == _SIGNALLED + signal.SIGHUP:
            abandon_output()  # because there is no terminal any more that could take what is left
        elif self._failure is not None:
            raise self._failure
        elif self._wanted.prompt is not None:
            return self._wanted.prompt.finish(ExitCode(self._code) if self._code else None)
        return self._code

    async def _in_host(self, host: Host) -> None:
        # Cancelled is only what is inside of the engine, which ends what runs in its own order.
        async with host, anyio.create_task_group() as tasks:
            self._scope = tasks.cancel_scope
            self._take_signals()
            try:
                await self._in_session(host, tasks)
            except (EngineError, OSError) as error:
                self._fail(error)
            tasks.cancel_scope.cancel()

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._on_terminate)
        loop.add_signal_handler(signal.SIGHUP, self._end, _SIGNALLED + signal.SIGHUP)

    def _on_interrupt(self) -> None:
        self._interrupt()

    def _on_terminate(self) -> None:
        self._stop_prompt(ExitCode.TERMINATED)

    def _stop_prompt(self, code: ExitCode = ExitCode.INTERRUPTED) -> None:
        """Cancel the turn of the one prompt; where there is none, or it was cancelled before, end."""
        prompt = self._wanted.prompt
        if prompt is None or not prompt.interrupt(code):
            self._end(code)

    def _end(self, code: int) -> None:
        """Has everything closed in good order."""
        self._code = code
        self._cancel()

    def _fail(self, error: EngineError | OSError) -> None:
        """Has everything closed, and the error told; nothing can be shown any more, or nothing be done."""
        if self._failure is None:
            self._failure = error
        self._cancel()

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    # --- in the engine ------------------------------------------------------------------------------------------------

    async def _in_session(self, host: Host, tasks: TaskGroup) -> None:
        wanted = self._wanted
        if wanted.prompt is not None and wanted.prompt.lacks_model(self._settings.model, host.model_setup):
            return
        session, title, was_there = await choose(
            host.sessions, wanted.session, wanted.cwd, wanted.goes_on, wanted.moved_to
        )
        highlight = rendering.python if self._in_colour else rendering.plain
        transcript = Transcript(
            session.cwd,
            highlight,
            # Asked for each time, because a window may get another size.
            lambda text: shown_markdown(text, self._screen.columns, self._in_colour, highlight),
            self._reading() if wanted.prompt is None else None,
        )
        if wanted.mode is not None:
            session.set_mode(wanted.mode)
        if wanted.prompt is not None:
            host.warm_up()
            await wanted.prompt.carry_out(session, self._settings.model, transcript, tasks, self._fail)
            return
        if host.model_setup is not None and not host.model_setup.is_done:
            todo = host.model_setup.todo
            sys.stderr.write(
                f"rewindow: no prompt can be answered yet: {todo[:1].lower()}{todo[1:]}, and start again\n"
            )
        host.warm_up()
        if was_there:
            self._screen.write(heading(session.session_id, session.cwd, title, session.path))
            self._screen.write(last_exchanges(session.events, transcript))
        tasks.start_soon(_prepare, host)
        await self._with_person(host, session, transcript, tasks)

    def _reading(self) -> Reading:
        """How a person reads along at this terminal."""
        from .replies import (
            Plain,
            Reply,  # only where somebody reads along
        )

        def columns() -> int | None:
            return self._screen.columns

        return Reading(columns, partial(Reply, columns, self._in_colour), partial(Plain, "thinking", columns))

    async def _with_person(self, host: Host, session: Session, transcript: Transcript, tasks: TaskGroup) -> None:
        from prompt_toolkit.input import create_input  # only where somebody types
        from prompt_toolkit.output import create_output

        from .interaction import Interaction

        # The terminal itself, because the streams of the command take secrets out of what is typed, too.
        source, output = create_input(sys.__stdin__), create_output(sys.__stdout__)
        with source.raw_mode():
            interaction = Interaction(
                session,
                self._screen,
                transcript,
                source=source,
                output=output,
                model=self._settings.model,
                state_dir=self._settings.state_dir,
                redactor=host.redactor,
                in_colour=self._in_colour,
                lost=self._fail,
            )
            self._interrupt = interaction.interrupt
            await interaction.run(tasks)


def _log_what_nobody_is_shown(*, shows_session: bool) -> None:
    """Has warnings go to standard error, but for those that a session shows as well, if it is shown."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("rewindow: %(message)s"))
    if shows_session:
        handler.addFilter(lambda record: not SHOWN_IN_SESSION.items() <= vars(record).items())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


async def _prepare(host: Host) -> None:
    """Loads what a first prompt needs, while the person types it."""
    await anyio.to_thread.run_sync(host.prepare, "prompt", abandon_on_cancel=True)


def run(wanted: Wanted, settings: Settings) -> int:
    """Runs the command; the exit code. Raises EngineError, OSError."""
    return Program(wanted, settings, os.environ).run()
