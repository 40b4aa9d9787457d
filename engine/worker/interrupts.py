"""SIGINT, raised as KeyboardInterrupt once in a statement and only while a flag says that user code runs.

An interrupt outside user code is remembered and raised when the next piece of it begins, so one that arrives between
the receipt of a request and its first bytecode is not lost. The host repeats an interrupt that seems to do nothing,
because one that comes just before a system call does not end that call; what follows the first that was raised is
ignored. Must not know who sends them. Used by `executor` and `effects`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """The flag and the memory. Main thread only, apart from `held`, which lets other threads pass."""

    __slots__ = ("_armed", "_pending", "_raised")

    def __init__(self) -> None:
        self._armed = False
        self._pending = False
        self._raised = False

    def install(self) -> None:
        """For a new statement: takes SIGINT over, also after the last one set a handler of its own."""
        self._raised = False
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        # A second one must not hit what cleans up after the first.
        if self._raised:
            return
        self._pending = True
        if self._armed:
            self._raise_pending()

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
            self._raised = True
            raise KeyboardInterrupt
