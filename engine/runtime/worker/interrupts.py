"""What an interrupt is to a statement: KeyboardInterrupt, raised once, and only while a flag says that user code runs.

An interrupt outside user code is remembered and raised when the next piece of it begins, so one that arrives between
the receipt of a request and its first bytecode is not lost. The host repeats an interrupt that seems to do nothing,
because one that comes just before a system call does not end that call; what follows the first that was raised is
ignored. `SignalInterrupts` is a worker's; the in-process environment has its own, for a thread. Must not know who sends
them. Used by `executor` and `effects`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Protocol


class Interrupts(Protocol):
    """When user code runs, and when it must not be interrupted."""

    def install(self) -> None:
        """A new statement begins, in the calling thread."""
        ...

    @property
    def came(self) -> bool:
        """Whether there was an interrupt since `install`, raised or too late to be."""
        ...

    def forget(self) -> None:
        """The statement that was interrupted has ended: drops an interrupt that came too late for it."""
        ...

    def armed(self) -> AbstractContextManager[None]:
        """While user code runs. Raises KeyboardInterrupt at once where one is remembered."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """A pause within `armed`, for what must not be interrupted half-way. Does nothing in other threads."""
        ...


class _Arming(AbstractContextManager[None]):
    """The same object for every time: a statement is armed several times, and waits for what is done for that.

    An interrupt that comes while it begins or ends disarms before it raises.
    """

    __slots__ = ("_interrupts",)

    def __init__(self, interrupts: SignalInterrupts) -> None:
        self._interrupts = interrupts

    def __enter__(self) -> None:
        self._interrupts.arm()

    def __exit__(self, *_error: object) -> None:
        self._interrupts.disarm()


class SignalInterrupts:
    """Interrupts by SIGINT. Main thread only, apart from `held`, which lets other threads pass."""

    __slots__ = ("_armed", "_arming", "_pending", "_raised")

    def __init__(self) -> None:
        self._arming = _Arming(self)
        self._armed = False
        self._pending = False
        self._raised = False

    def install(self) -> None:
        """Takes SIGINT over, also after the last statement set a handler of its own."""
        self._raised = False
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        # A second one must not hit what cleans up after the first.
        if self._raised:
            return
        self._pending = True
        if self._armed:
            self._raise_pending()

    @property
    def came(self) -> bool:
        return self._raised or self._pending

    def forget(self) -> None:
        self._pending = False
        # One for the next statement may come before that begins, and is to be remembered.
        self._raised = False

    def armed(self) -> AbstractContextManager[None]:
        return self._arming

    def arm(self) -> None:
        """`armed` begins."""
        self._armed = True
        self._raise_pending()

    def disarm(self) -> None:
        """`armed` ends."""
        self._armed = False

    @contextmanager
    def held(self) -> Generator[None]:
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
