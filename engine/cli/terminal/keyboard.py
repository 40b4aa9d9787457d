"""The keys of the terminal while no line is edited: they cancel, leave, or answer a question.

The terminal is in raw mode for as long as the program has it, so Ctrl-C is a key at every moment and no signal, and
nothing is echoed into what is being shown. What is typed ahead, while a turn runs, is kept for the next line; but
nothing that was typed before a question was on the screen answers it, because nobody can have meant that. Used by
`interaction`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import anyio
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output

from ...core.errors import SessionReadOnlyError
from ...core.ids import Seq
from ...log.events import Event
from ...session.journal import Item, Subscription
from ...session.requests import TurnEnd
from ...session.session import Session

_ESCAPE_SECONDS: Final = 0.1
"""After an escape byte, how long the rest of a key may take; else it was the key Escape."""
_TERMINALS: Final = {Keys.CPRResponse}
"""What comes from the terminal itself."""
ESCAPE: Final = "escape"
"""What `Answers` give for a question that is left without an answer."""


class Answers:
    """The keys that were pressed since a question was on the screen."""

    def __init__(self) -> None:
        self._keys: deque[str] = deque()
        self._arrived = anyio.Event()

    def put(self, key: str) -> None:
        self._keys.append(key)
        self._arrived.set()

    async def next(self) -> str:
        """The next key: a character, a name of the library's, or ESCAPE for the key itself, Ctrl-C and Ctrl-D."""
        while not self._keys:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._keys.popleft()


class Keyboard:
    """Reads keys from `source` between two lines.

    Args:
        cancel: called for Ctrl-C.
        leave: called for Ctrl-D, and when the terminal is gone.
    """

    def __init__(self, source: Input, cancel: Callable[[], None], leave: Callable[[], None]) -> None:
        self._source = source
        self._cancel = cancel
        self._leave = leave
        self._asking: Callable[[str], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watched(self, output: Output) -> Generator[None]:
        """Takes the keys as long as this lasts; what is pasted meanwhile on the terminal of `output` stays whole."""
        output.enable_bracketed_paste()
        output.flush()
        try:
            with self._source.attach(self._ready):
                yield
        finally:
            if self._timer is not None:
                self._timer.cancel()  # because what is incomplete belongs to the line that is edited next
            with suppress(OSError):
                output.disable_bracketed_paste()
                output.flush()

    @contextmanager
    def asked(self) -> Generator[Answers]:
        """Takes the keys as answers, as long as this lasts. What was typed so far counts for nothing."""
        with suppress(termios.error, OSError):
            termios.tcflush(self._source.fileno(), termios.TCIFLUSH)
        answers = Answers()
        self._asking = answers.put
        try:
            yield answers
        finally:
            self._asking = None

    def _ready(self) -> None:
        self._take(self._source.read_keys())
        if self._source.closed:
            self._leave()
        else:
            self._timer = asyncio.get_running_loop().call_later(_ESCAPE_SECONDS, self._flush)

    def _flush(self) -> None:
        self._take(self._source.flush_keys())

    def _take(self, presses: list[KeyPress]) -> None:
        for press in presses:
            if press.key in _TERMINALS:
                continue
            if press.key == Keys.ControlC:
                self._dismiss()
                self._cancel()
            elif press.key == Keys.ControlD:
                self._dismiss()
                self._leave()
            elif press.key == Keys.ControlZ:
                self._suspend()
            elif self._asking is None:
                store_typeahead(self._source, [press])
            else:
                self._asking(ESCAPE if press.key == Keys.Escape else press.key)

    def _dismiss(self) -> None:
        if self._asking is not None:
            self._asking(ESCAPE)

    def _suspend(self) -> None:
        """Stops this program until the shell lets it go on, with the terminal as the shell expects it."""
        with self._source.cooked_mode():
            os.kill(0, signal.SIGTSTP)


# pump:
# Has everything that a session publishes shown, in order, and knows how far that is.
#
# A question is asked when everything before it was shown, and the next line is read when everything of the turn was.
# Must not know what an item looks like. One per session and terminal.

FRAME_SECONDS: Final = 1 / 30


class Pump:
    """Moves items from a subscription to `show` until the subscription ends.

    Args:
        failed: called once with what `show` raised: nothing is shown after that, and nobody waits for it any more.
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
        """Shows what is published until the subscription ends."""
        try:
            async for batch in self._subscription.batches(FRAME_SECONDS):
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
        """Waits until everything up to the event at `seq` was shown, or nothing more will be."""
        while not self._is_over and self._shown < seq:
            await self._progress.wait()

    async def finished(self, session: Session, end: TurnEnd) -> None:
        """Waits until everything that belongs to the turn was shown."""
        # A session that has become read-only will never publish what it could not commit.
        with suppress(SessionReadOnlyError):
            await session.durable(end.seq)
            await self.shown(end.seq)
            await self._caught_up()

    async def _caught_up(self) -> None:
        """Waits until everything that was published so far was shown, or nothing more will be."""
        published = self._subscription.published
        while not self._is_over and self._handled < published:
            await self._progress.wait()

    def _advance(self) -> None:
        progress, self._progress = self._progress, anyio.Event()
        progress.set()
