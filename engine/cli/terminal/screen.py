"""The screen, the pump that shows a session on it in order, and the line that says what a turn waits for.

Only `Screen` writes to a person's terminal. Below the permanent text it can draw lines that change: a message that is
still arriving, and the spinner. Each write erases and redraws them in one piece, so that nothing flickers. A closed
terminal or pipe is an OSError, as from the operating system. Called by `program`, `interaction` and `one_prompt`. Must
not import the line editing library, because one prompt does not need it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import anyio

from ...core.errors import SessionReadOnlyError
from ...core.ids import Seq
from ...core.text import cut_line
from ...core.toolbox import call_title, tool_named
from ...log.events import Event
from ...log.events.conversation import CondensationRequest, RunStop, ToolCall, ToolResult
from ...log.events.execution import CommandEnded, ExecutionFinished, StatementRecorded
from ...log.events.session import ProjectionSent
from ...session.journal import (
    FilesPutBack,
    Item,
    ModelDelayed,
    ModelRetried,
    ReasoningStreamed,
    StatementRerun,
    Subscription,
    TextStreamed,
)
from ...session.requests import TurnEnd
from ...session.session import Session
from ..output import shown, shown_line
from .rendering import Fragment, painted

Below = Callable[[], Sequence[list[Fragment]]]
"""The lines to draw below all others. Each fits the terminal."""


def _nothing() -> Sequence[list[Fragment]]:
    return ()


class Screen:
    """Standard output as it is now, with secrets redacted.

    Args:
        in_colour: whether to show styles.
        moves: whether the cursor can be moved, so that lines can be redrawn.
    """

    def __init__(self, in_colour: bool, moves: bool = False) -> None:
        self._in_colour = in_colour
        self._moves = moves
        self._stream = sys.stdout
        self._below: Below = _nothing
        self._drawn = ""
        self._at_start = True

    def write(self, fragments: Iterable[Fragment]) -> None:
        """Write at once; block while the reader does not read.

        Raises:
            OSError
        """
        text = painted(fragments, self._in_colour)
        if text:
            self._at_start = text.endswith("\n")
            self._put(text)

    def draw(self, sequence: str) -> None:
        """Write what draws a picture, at once, and as it is; see `drawn_pictures`.

        Raises:
            OSError
        """
        if sequence:
            self._put(sequence)

    def refresh(self) -> None:
        """Redraw the lines below.

        Raises:
            OSError
        """
        self._put("")

    @contextmanager
    def below(self, lines: Below) -> Generator[None]:
        """Draw these lines below all others while this lasts."""
        before, self._below = self._below, lines
        try:
            self.refresh()
            yield
        finally:
            self._below = before
            self.refresh()

    def _put(self, text: str) -> None:
        lines = self._below() if self._moves and self._at_start else ()
        drawn = "\n".join(painted(line, self._in_colour) for line in lines)
        if not text and drawn == self._drawn:
            return
        up = self._drawn.count("\n")
        erased = ("\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J") if self._drawn else ""
        self._drawn = drawn
        self._stream.write(erased + text + drawn)
        self._stream.flush()

    @property
    def lines(self) -> int:
        """The terminal's height in lines; 24 if unknown."""
        return shutil.get_terminal_size().lines

    @property
    def columns(self) -> int | None:
        """The terminal's width in cells; None if the output is not a terminal."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None


def can_move(environ: Mapping[str, str]) -> bool:
    """Whether standard output is a terminal with a movable cursor."""
    return sys.stdout.isatty() and environ.get("TERM", "dumb") != "dumb"


def shows_colours(environ: Mapping[str, str]) -> bool:
    """Whether to show colours: on a terminal, unless NO_COLOR is set."""
    return can_move(environ) and not environ.get("NO_COLOR")


_BATCH_SECONDS: Final = 1 / 30


class Pump:
    """Moves items from a subscription to `show`, in order.

    A question waits until everything before it is shown. The next line waits until all of the turn is shown.

    Args:
        failed: called once with the error of `show`. Then nothing more is shown, and all waits end.
    """

    def __init__(
        self, subscription: Subscription, show: Callable[[Item], None], failed: Callable[[OSError], None]
    ) -> None:
        self._subscription = subscription
        self._show = show
        self._failed = failed
        self._shown = subscription.after
        self._handled = 0
        self._is_over = False
        self._progress = anyio.Event()

    async def run(self) -> None:
        """Show what is published until the subscription ends."""
        try:
            async for batch in self._subscription.batches(_BATCH_SECONDS):
                for item in batch:
                    self._show(item)
                    if isinstance(item, Event):
                        self._shown = item.seq
                self._handled += len(batch)
                self._advance()
        except OSError as error:
            self._failed(error)
        finally:
            self._is_over = True
            self._advance()

    async def shown(self, seq: Seq) -> None:
        """Wait until the event at `seq` is shown, or nothing more will be."""
        while not self._is_over and self._shown < seq:
            await self._progress.wait()

    async def finished(self, session: Session, end: TurnEnd) -> None:
        """Wait until everything that belongs to the turn is shown."""
        # A read-only session never publishes what it could not commit.
        with suppress(SessionReadOnlyError):
            await session.durable(end.seq)
            await self.shown(end.seq)
            await self._caught_up()

    async def _caught_up(self) -> None:
        """Wait until everything published so far is shown."""
        published = self._subscription.published
        while not self._is_over and self._handled < published:
            await self._progress.wait()

    def _advance(self) -> None:
        progress, self._progress = self._progress, anyio.Event()
        progress.set()


FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 0.3
"""A shorter wait is not shown."""
_COMMAND_CHARS: Final = 40
_HINT: Final = " (Ctrl-C cancels)"
"""Left out if there is no room for it."""
_AROUND: Final = 4
"""Cells for the spinner, its space, and the last column, which stays free."""


class Waiting:
    """The one line, with a spinner, that says what a turn waits for.

    `model` returns the model's name. Pure, except for its state: it sees every item that is shown.
    """

    def __init__(self, model: Callable[[], str]) -> None:
        self._model = model
        self._text = ""
        self._since = 0.0
        self._statement = ""

    def begin(self, now: float) -> None:
        """Note that a turn began."""
        self._wait("starting", now)

    def see(self, item: Item, now: float) -> None:
        """Note an item."""
        what = self._after(item)
        if what is not None and what != self._text:
            # These are shown at once.
            self._wait(what, now - PATIENCE_SECONDS if isinstance(item, ModelRetried | ModelDelayed) else now)

    def line(self, now: float, width: int | None) -> list[Fragment]:
        """Return the line with its spinner; empty if nothing takes long."""
        seconds = now - self._since
        if not self._text or seconds < PATIENCE_SECONDS:
            return []
        frame = FRAMES[int(now / FRAME_SECONDS) % len(FRAMES)]
        passed = f", {seconds:.0f} s"
        is_short = width is None or len(self._text) + len(passed) + len(_HINT) + _AROUND <= width
        rest = passed + _HINT if is_short else passed
        what = self._text if width is None else cut_line(self._text, max(width - len(rest) - _AROUND, 1))
        return [("place", frame), ("quiet", f" {what}{rest}")]

    def _wait(self, what: str, now: float) -> None:
        self._text, self._since = what, now

    def _after(self, item: Item) -> str | None:
        """Return the new text after this item.

        It is empty for nothing to wait for, and None for no change.
        """
        match item:
            case TextStreamed(aside=False):
                return f"{self._model()} is writing"
            case ReasoningStreamed():
                return f"{self._model()} is thinking"
            case ProjectionSent() | ToolResult(parent_id=None):
                return f"waiting for {self._model()}"
            case ModelRetried(instead=model) if model:
                return f"waiting for {shown(model)}"
            case ModelRetried(attempt=attempt, attempts=attempts, reason=reason):
                return f"attempt {attempt} of {attempts}: {shown(reason).rstrip('.')}"
            case ModelDelayed(reason=reason):
                return shown(reason)
            case CondensationRequest():
                return "summarizing the conversation"
            case _:
                return self._after_action(item)

    def _after_action(self, item: Item) -> str | None:
        match item:
            case StatementRecorded(index=index):
                self._statement = f"running statement {index}"
                return self._statement
            case ToolCall(parent_id=str()):
                return self._running(item)
            case CommandEnded():
                return self._statement
            case StatementRerun(place=place, total=total, state="begun" | "running"):
                return f"rebuilding names, statement {place} of {total}"
            case FilesPutBack(done=done, total=total):
                return f"restoring files, {done} of {total}"
            case ExecutionFinished() | RunStop() | StatementRerun():
                return ""
            case _:
                return None

    def _running(self, call: ToolCall) -> str | None:
        tool = tool_named(call.tool)
        if tool is None or tool.kind != "execute":
            return None
        return f"running {shown_line(call_title(call.tool, call.arguments), _COMMAND_CHARS)}"
