"""`rewindow run` as a program: settings, engine, session, and a person or one prompt.

Owns the life of the process: what signals do, that the session is closed in every case, and the exit code. Called by
`cli.run`, which has read the command line.

The engine's task group would wrap an exception that passes through it. So an error inside is stored, the engine is
closed, and then the error is raised.
"""

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
from ...core.pictures import Picture
from ...core.settings import Settings
from ...core.text import cut_line, more, plural
from ...log.events import AnyEvent
from ...log.events.conversation import UserMessage
from ...log.events.execution import StatementRecorded
from ...runtime.zygote import Zygote
from ...session.host import Host
from ...session.registry import SHOWN_IN_SESSION, Sessions
from ...session.session import Session
from ..commands import ExitCode, abandon_output
from ..output import shown
from . import rendering
from .drawn_pictures import Draw, draw_nothing, drawing, protocol_of
from .one_prompt import OnePrompt
from .picture_files import PictureFiles
from .rendering import Fragment, shown_markdown
from .screen import Screen, can_move, shows_colours
from .transcript import Reading, Transcript

_SIGNALLED: Final = 128
"""Added to the number of the signal that ended the program, as shells do."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for: see `cli.run`.

    `prompt` is None if a person types.
    """

    session: str | None
    cwd: str
    continues: bool
    moved_to: str | None
    mode: str | None
    prompt: OnePrompt | None


class Program:
    """One run of the command."""

    def __init__(self, options: Options, settings: Settings, environ: Mapping[str, str]) -> None:
        self._options = options
        self._settings = settings
        self._in_colour = shows_colours(environ) and options.prompt is None
        self._environ = environ
        self._screen = Screen(self._in_colour, can_move(environ) and options.prompt is None)
        self._scope: anyio.CancelScope | None = None
        self._failure: EngineError | OSError | None = None
        self._code: int = ExitCode.DONE
        # Before the prompt has a session, a signal ends the program.
        self._interrupt: Callable[[], None] = _nothing if options.prompt is None else self._stop_prompt

    def run(self) -> int:
        """Run to the end, and return the exit code.

        Raises:
            EngineError, OSError
        """
        _log_warnings(shows_session=self._options.prompt is None)
        zygote = Zygote.spawn()  # first, because it starts in parallel
        try:
            # One prompt may be a command, which needs no model. If it needs one, the exit code says so.
            must_have_model = self._options.prompt is None
            host = Host(self._settings, self._environ, zygote=zygote, must_have_model=must_have_model)
        except BaseException:
            zygote.close()
            raise
        anyio.run(self._in_host, host)
        if self._code == _SIGNALLED + signal.SIGHUP:
            abandon_output()  # because the terminal that would show the rest is gone
        elif self._failure is not None:
            raise self._failure
        elif self._options.prompt is not None:
            return self._options.prompt.finish(ExitCode(self._code) if self._code else None)
        return self._code

    async def _in_host(self, host: Host) -> None:
        # Only these tasks are cancelled. The engine ends its own in order.
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
        """Cancel the turn of the one prompt, or end.

        Ends if no turn runs, or if it was cancelled before.
        """
        prompt = self._options.prompt
        if prompt is None or not prompt.interrupt(code):
            self._end(code)

    def _end(self, code: int) -> None:
        """Close everything in order, with this exit code."""
        self._code = code
        self._cancel()

    def _fail(self, error: EngineError | OSError) -> None:
        """Close everything, then report the error.

        The session or the terminal can no longer be used.
        """
        if self._failure is None:
            self._failure = error
        self._cancel()

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    # --- in the engine ------------------------------------------------------------------------------------------------

    async def _in_session(self, host: Host, tasks: TaskGroup) -> None:
        options = self._options
        if options.prompt is not None and options.prompt.lacks_model(self._settings.model, host.model_setup):
            return
        session, title, is_old = await choose(
            host.sessions, options.session, options.cwd, options.continues, options.moved_to
        )
        highlight = rendering.python if self._in_colour else rendering.plain
        pictures = PictureFiles(session.picture, os.environ)
        transcript = Transcript(
            session.cwd,
            highlight,
            # The width is read each time, because a window can be resized.
            lambda text: shown_markdown(text, self._screen.columns, self._in_colour, highlight),
            self._reading() if options.prompt is None else None,
            pictures.line,
        )
        if options.mode is not None:
            session.set_mode(options.mode)
        if options.prompt is not None:
            host.warm_up()
            await options.prompt.run(session, self._settings.model, transcript, tasks, self._fail, pictures.line)
            return
        if host.model_setup is not None and not host.model_setup.is_done:
            sys.stderr.write(f"rewindow: the model is not set up. {host.model_setup.todo}, then start again.\n")
        host.warm_up()
        if is_old:
            self._screen.write(heading(session.session_id, session.cwd, title, session.path))
            self._screen.write(last_exchanges(session.events, transcript))
        tasks.start_soon(_prepare, host)
        await self._with_person(host, session, transcript, tasks)

    def _reading(self) -> Reading:
        """Return how a person reads along at this terminal."""
        from .replies import (
            Plain,
            Reply,  # imported only for a person, because it loads the Markdown libraries
        )

        def columns() -> int | None:
            return self._screen.columns

        return Reading(columns, partial(Reply, columns, self._in_colour), partial(Plain, "thinking", columns))

    async def _with_person(self, host: Host, session: Session, transcript: Transcript, tasks: TaskGroup) -> None:
        from prompt_toolkit.input import create_input  # imported only for a person
        from prompt_toolkit.output import create_output

        from .interaction import Interaction

        # The terminal itself: the streams of the command would also redact what is typed.
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
                draw=self._drawing(session),
            )
            self._interrupt = interaction.interrupt
            await interaction.run(tasks)

    def _drawing(self, session: Session) -> Draw:
        """Return what draws pictures at this terminal."""
        protocol = protocol_of(os.environ) if sys.stdout.isatty() else None
        if protocol is None:
            return draw_nothing

        def draw(picture: Picture) -> str:
            return drawing(protocol, picture, session.picture(picture), self._screen.columns or 0, self._screen.lines)

        return draw


def _log_warnings(*, shows_session: bool) -> None:
    """Log warnings to standard error.

    If a person sees the session, warnings that it shows itself are left out.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("rewindow: %(message)s"))
    if shows_session:
        handler.addFilter(lambda record: not SHOWN_IN_SESSION.items() <= vars(record).items())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


async def _prepare(host: Host) -> None:
    """Load what a first prompt needs, while the person types it."""
    await anyio.to_thread.run_sync(host.prepare, "prompt", abandon_on_cancel=True)


def run(options: Options, settings: Settings) -> int:
    """Run the command, and return the exit code.

    Raises:
        EngineError, OSError
    """
    return Program(options, settings, os.environ).run()


_MOST_NAMED = 5
_UNUSED_EVENTS = 2
"""The most events of an unused session: it was opened, and its mode was set."""


async def choose(
    sessions: Sessions, start: str | None, cwd: str, continues: bool, moved_to: str | None
) -> tuple[Session, str | None, bool]:
    """Return the session that the person means, its title, and if it is old.

    Args:
        start: the start of its id; None for a new session.
        cwd: the directory of a new session.
        continues: without `start`, choose the latest session of `cwd` instead of a new one.
        moved_to: the directory in which an old session continues; None for its own.

    Raises:
        SessionNotFoundError, SessionInUseError, StoreError
        InvalidRequestError: several sessions match, or `cwd` has none to continue.
    """
    if start is None and not continues:
        return await sessions.create(cwd), None, False
    if start is None:
        # A session of only commands and the user's statements has no title, but can continue.
        found = await sessions.rows(cwd=cwd, archived=False)
        rows = [row for row in found if row.title is not None or row.events > _UNUSED_EVENTS]
        if not rows:
            raise InvalidRequestError(f"there is no session to continue in {shown(cwd)}; start one with `rewindow run`")
    else:
        rows = [row for row in await sessions.rows() if row.session_id.startswith(start)]
        if not rows:
            raise SessionNotFoundError(SessionId(start))
        if len(rows) > 1:
            names = ", ".join(row.session_id for row in rows[:_MOST_NAMED])
            raise InvalidRequestError(f"{start!r} is the start of {len(rows)} sessions: {names}; type more of the id")
    row = rows[0]
    return await sessions.load(row.session_id, moved_to), row.title, True


SHOWN_EXCHANGES: Final = 3
"""This many of the user's last messages are shown, with everything that followed."""
SHOWN_LINES: Final = 200
"""The most lines of those exchanges; the last ones are shown."""
_TITLE_CHARS: Final = 80


def heading(session_id: SessionId, cwd: str, title: str | None, events: Sequence[AnyEvent]) -> list[Fragment]:
    """Return a line that names a session which continues."""
    count = sum(isinstance(event, StatementRecorded) for event in events)
    named = f" {cut_line(shown(title), _TITLE_CHARS)!r}" if title else ""
    about = f" in {shown(cwd)}, {count:,} {plural(count, 'statement')}"
    return [("strong", f"Session {session_id}{named}"), ("quiet", f"{about}\n")]


def last_exchanges(events: Sequence[AnyEvent], transcript: Transcript) -> Iterator[Fragment]:
    """Yield the end of the conversation, and how much came before."""
    transcript.remember(events)
    prompts = [place for place, event in enumerate(events) if isinstance(event, UserMessage)]
    if not prompts:
        return
    before = len(prompts) - SHOWN_EXCHANGES
    if before > 0:
        yield "quiet", f"... {before:,} earlier {plural(before, 'message')}, see `rewindow show`\n"
    lines = _lines(_shown(events[prompts[-SHOWN_EXCHANGES:][0] :], transcript))
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
