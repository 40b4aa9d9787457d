"""SIGINT, raised as KeyboardInterrupt only while a flag says that user code runs, else remembered.

A remembered interrupt is raised when the next piece of user code begins, so one that arrives between the receipt of a
request and its first bytecode is not lost. Must not know who sends them. Used by `executor` and `effects`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """The flag and the memory. Main thread only, apart from `held`, which lets other threads pass."""

    __slots__ = ("_armed", "_pending")

    def __init__(self) -> None:
        self._armed = False
        self._pending = False

    def install(self) -> None:
        """Takes SIGINT over, also after a statement set a handler of its own."""
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self._armed:
            self._pending = True
            return
        # One interrupt ends one piece of user code; a second one must not hit what cleans up after the first.
        self._armed = False
        raise KeyboardInterrupt

    def forget(self) -> None:
        """Drops a remembered interrupt whose statement has ended."""
        self._pending = False

    @contextmanager
    def armed(self) -> Generator[None]:
        """While user code runs. Raises KeyboardInterrupt at once where one is remembered."""
        self._armed = True
        try:
            self._raise_pending()
            yield
        finally:
            self._armed = False

    @contextmanager
    def held(self) -> Generator[None]:
        """A pause within `armed`: what must not be torn in half, such as reading a frame."""
        if threading.current_thread() is not threading.main_thread() or not self._armed:
            yield
            return
        self._armed = False
        try:
            yield
        finally:
            self._armed = True
            self._raise_pending()

    def _raise_pending(self) -> None:
        if self._pending:
            self._pending = False
            self._armed = False
            raise KeyboardInterrupt
