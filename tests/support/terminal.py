"""A program on a real pseudo-terminal, and the screen as a person sees it. Every wait is bounded."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import pyte

from tests.support.workers import PATIENCE

ENTER = "\r"
ESCAPE = "\x1b"
CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_Z = "\x1a"


def pasted(text: str) -> str:
    """What a terminal sends for a text that is pasted, where it brackets what is."""
    return f"\x1b[200~{text}\x1b[201~"


def _begin() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in a shell, even where the tests run in the background of one


class _Screen(pyte.HistoryScreen):
    """A screen that answers what it is asked."""

    def __init__(self, columns: int, lines: int, answer: Callable[[bytes], None]) -> None:
        super().__init__(columns, lines, history=10_000, ratio=0.5)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data.encode())


class Terminal:
    """Runs `command`; to be used as a context, at whose end the program is ended if it still runs."""

    def __init__(
        self, command: Sequence[str], variables: dict[str, str], cwd: str, *, lines: int = 40, columns: int = 80
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.raw = bytearray()
        self._screen = _Screen(columns, lines, self._write)
        self._stream = pyte.ByteStream(self._screen)
        self._set_size(lines, columns)
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=variables,
            start_new_session=True,
            preexec_fn=_begin,  # noqa: PLW1509 -- two system calls, no lock
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.hang_up()

    # --- what a person does -------------------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        self._write(text.encode("utf-8", "surrogateescape"))

    def resize(self, lines: int, columns: int) -> None:
        """The window has another size; the program is told, as by a terminal."""
        self._screen.resize(lines, columns)
        self._set_size(lines, columns)

    def hang_up(self) -> None:
        """The terminal is gone."""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    # --- what a person sees -------------------------------------------------------------------------------------------

    @property
    def screen(self) -> list[str]:
        """The lines on the screen, without the space at their ends."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """All that was shown, with what has left the screen at its top."""
        above = ["".join(row[column].data for column in sorted(row)).rstrip() for row in self._screen.history.top]
        return "\n".join([*above, *self.screen]).rstrip()

    def until(self, *texts: str, seconds: float = PATIENCE) -> str:
        """Waits until each of the texts is to be seen; all that is to be seen."""
        return self.until_it(lambda seen: all(text in seen for text in texts), f"{texts!r}", seconds)

    def until_it(self, holds: Callable[[str], bool], what: str, seconds: float = PATIENCE) -> str:
        """Waits until `holds` is true of what is to be seen."""
        deadline = time.monotonic() + seconds
        while not holds(self.text):
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"{what} is not to be seen:\n{self.text}")
        return self.text

    def ended(self) -> int:
        """Waits for the end of the program; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    # --- the pseudo-terminal ------------------------------------------------------------------------------------------

    @property
    def is_cooked(self) -> bool:
        """Whether the terminal edits lines and echoes by itself, as a shell expects to find it."""
        flags = termios.tcgetattr(self._ours)[3]
        return bool(flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG)

    @property
    def brackets_pastes(self) -> bool:
        """Whether the program asked for pasted text to be marked as such, so that it stays whole."""
        return self.raw.rfind(b"\x1b[?2004h") > self.raw.rfind(b"\x1b[?2004l")

    def _set_size(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # because a program that has ended is not asked to read
            os.write(self._ours, data)

    def _read(self, seconds: float) -> bool:
        """Takes what there is; False when there will be nothing more, or was nothing in time."""
        if self._ours < 0 or not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)
