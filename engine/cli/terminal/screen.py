"""Writes fragments to standard output, in colours where that is a terminal that has them; the only module that does.

Below what is written for good it can draw lines that change: what has begun to come, and what is waited for. These are
erased and drawn again with each write, in one piece, so that nothing flickers. Must not know what it writes. A reader
that has left is an OSError, as from the operating system.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from ...core.text import as_printed, cut_line, visible
from ...core.toolbox import call_title, tool_named
from ...log.events.conversation import CondensationRequest, RunStop, ToolCall, ToolResult
from ...log.events.execution import CommandEnded, ExecutionFinished, StatementRecorded
from ...log.events.session import ProjectionSent
from ...session.journal import FilesPutBack, Item, ModelRetried, ReasoningStreamed, StatementRerun, TextStreamed
from ..output import shown, shown_line
from .rendering import Fragment, painted

Below = Callable[[], Sequence[list[Fragment]]]
"""The lines to be drawn below all others, each of which fits the terminal."""


def _nothing() -> Sequence[list[Fragment]]:
    return ()


class Screen:
    """Standard output, as it is when this is made: without secrets.

    Args:
        in_colour: whether styles are shown.
        moves: whether the cursor can be moved, so that lines can be drawn again.
    """

    def __init__(self, in_colour: bool, moves: bool = False) -> None:
        self._in_colour = in_colour
        self._moves = moves
        self._stream = sys.stdout
        self._below: Below = _nothing
        self._drawn = ""
        self._at_start = True

    def write(self, fragments: Iterable[Fragment]) -> None:
        """Writes at once; blocks while nobody reads. Raises OSError."""
        text = painted(fragments, self._in_colour)
        if text:
            self._at_start = text.endswith("\n")
            self._put(text)

    def refresh(self) -> None:
        """Draws the lines below again, as they are now. Raises OSError."""
        self._put("")

    @contextmanager
    def below(self, lines: Below) -> Generator[None]:
        """Draws these lines below all others, as long as this lasts."""
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
        """How many lines the terminal shows; 24 where it does not say."""
        return shutil.get_terminal_size().lines

    @property
    def columns(self) -> int | None:
        """How many cells a line of the terminal has; None where the output is no terminal."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None


def can_move(environ: Mapping[str, str]) -> bool:
    """Whether standard output is a terminal whose cursor can be moved."""
    return sys.stdout.isatty() and environ.get("TERM", "dumb") != "dumb"


def shows_colours(environ: Mapping[str, str]) -> bool:
    """Whether standard output shows colours: a terminal that can, and the user has nothing against it (NO_COLOR)."""
    return can_move(environ) and not environ.get("NO_COLOR")


# waiting:
# What a turn waits for, in one line with a spinner: the model, a statement, a command, another attempt.
#
# Pure but for what it remembers. Told of every item that is shown; drawn by `interaction` below all that is written.

FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 0.3
"""What is over sooner is not said."""
_COMMAND_CHARS: Final = 40
_HINT: Final = " (Ctrl-C cancels)"
"""Left out where it would take the room of what is said."""
_AROUND: Final = 4
"""Cells for the spinner, its space, and the end of the line, which stays free."""


class Waiting:
    """What one turn after the other waits for. `model`: what the model is called."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._what = ""
        self._since = 0.0
        self._statement = ""

    def begin(self, now: float) -> None:
        """A turn has begun."""
        self._wait("starting", now)

    def see(self, item: Item, now: float) -> None:
        """Something happened."""
        what = self._after(item)
        if what is not None and what != self._what:
            # Another attempt is news at once.
            self._wait(what, now - PATIENCE_SECONDS if isinstance(item, ModelRetried) else now)

    def line(self, now: float, width: int | None) -> list[Fragment]:
        """The line with its spinner; empty where nothing takes long."""
        seconds = now - self._since
        if not self._what or seconds < PATIENCE_SECONDS:
            return []
        frame = FRAMES[int(now / FRAME_SECONDS) % len(FRAMES)]
        passed = f", {seconds:.0f} s"
        is_short = width is None or len(self._what) + len(passed) + len(_HINT) + _AROUND <= width
        rest = passed + _HINT if is_short else passed
        what = self._what if width is None else cut_line(self._what, max(width - len(rest) - _AROUND, 1))
        return [("place", frame), ("quiet", f" {what}{rest}")]

    def _wait(self, what: str, now: float) -> None:
        self._what, self._since = what, now

    def _after(self, item: Item) -> str | None:
        """What is waited for from this item on; empty for nothing, None where that does not change."""
        match item:
            case TextStreamed(aside=False):
                return f"{self._model} is writing"
            case ReasoningStreamed():
                return f"{self._model} is thinking"
            case ProjectionSent() | ToolResult(parent_id=None):
                return f"waiting for {self._model}"
            case ModelRetried(attempt=attempt, attempts=attempts, reason=reason):
                return f"attempt {attempt} of {attempts}: {shown(reason).rstrip('.')}"
            case CondensationRequest():
                return "summarizing the conversation"
            case _:
                return self._after_act(item)

    def _after_act(self, item: Item) -> str | None:
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


# printed:
# What a running statement prints, as it may be shown while more of it is on the way.
#
# A terminal must be told nothing by a statement: colours go, other control characters become visible, and of what was
# overwritten in a line the last remains (`text.as_printed`). That is known only of a line that is complete. So a line
# is shown in pieces as long as it holds no control character, and otherwise when it ends. Pure; called by
# `transcript`.


class Printed:
    """One stream of one execution."""

    def __init__(self) -> None:
        self._line = ""
        """The last line as it came, without the end it may still get."""
        self._shown = ""
        """What was shown of it."""

    def add(self, piece: str) -> str:
        """What can be shown now that this has come."""
        whole, newline, self._line = (self._line + piece).rpartition("\n")
        text = self._rest(whole + newline) if newline else ""
        if visible(self._line) == self._line:
            text += self._line[len(self._shown) :]
            self._shown = self._line
        return text

    def end(self) -> str:
        """What is left when nothing more comes."""
        text, self._line = self._rest(self._line), ""
        return text

    def _rest(self, text: str) -> str:
        """What of the text, which begins with the last line, was not shown yet."""
        seen, shown, self._shown = as_printed(text), self._shown, ""
        # Where the shown part was overwritten, the line is shown once more.
        return seen.removeprefix(shown) if seen.startswith(shown) else "\n" + seen
