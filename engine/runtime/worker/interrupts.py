"""Interrupts of statements: an exception, raised once, and only while a flag says that user code runs.

The host sends `Stopping` ahead of the signal, so the reason has arrived when the signal comes. A timeout raises
`StatementTimeout`, a cancel `StatementCancelled`. A signal without a reason raises a bare KeyboardInterrupt: another
process sent it, or the host stops something that is not a statement.

An interrupt outside user code is remembered, and raised when user code begins. So one between the receipt of a request
and its first bytecode is not lost. The host repeats an interrupt that seems to have no effect, because one just before
a system call does not end that call; later ones are ignored after the first was raised. Workers use `SignalInterrupts`;
the in-process environment has its own, for a thread. Must not know who sends interrupts. Used by `executor` and
`effects`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Protocol

from .protocol import Stopping


class StatementTimeout(KeyboardInterrupt):
    """Raised in a statement when its time limit is over. `except Exception` does not catch it."""


class StatementCancelled(KeyboardInterrupt):
    """Raised in a statement when the user or client cancels it. `except Exception` does not catch it."""


# A traceback names them without a module, like the builtins.
StatementTimeout.__module__ = StatementCancelled.__module__ = "builtins"


def interruption(stopping: Stopping | None) -> KeyboardInterrupt:
    """Return the exception for this reason."""
    if stopping is None:
        return KeyboardInterrupt()
    if stopping.seconds is None:
        return StatementCancelled("the statement was cancelled")
    return StatementTimeout(f"the statement was stopped after its time limit of {stopping.seconds:g} s")


def _no_reason() -> Stopping | None:
    return None


class Interrupts(Protocol):
    """Marks when user code runs, and when it must not be interrupted."""

    def install(self) -> None:
        """Begin a statement in the calling thread."""
        ...

    @property
    def came(self) -> bool:
        """Whether an interrupt came since `install`, even too late to be raised."""
        ...

    def forget(self) -> None:
        """Drop an interrupt that came too late for its statement."""
        ...

    def armed(self) -> AbstractContextManager[None]:
        """A block of user code. Raises KeyboardInterrupt at once if an interrupt is remembered."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """A block inside `armed` that must not be interrupted. Does nothing in other threads."""
        ...


class _Arming(AbstractContextManager[None]):
    """The context manager of `armed`, reused because each statement needs it several times, and entering must be fast.

    An interrupt during entry or exit disarms before it raises.
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

    __slots__ = ("_armed", "_arming", "_pending", "_raised", "_reason")

    def __init__(self, reason: Callable[[], Stopping | None] = _no_reason) -> None:
        """`reason` takes the latest `Stopping` that has arrived. Called when an interrupt is raised or forgotten."""
        self._reason = reason
        self._arming = _Arming(self)
        self._armed = False
        self._pending = False
        self._raised = False

    def install(self) -> None:
        """Install the SIGINT handler, even if the last statement set its own."""
        self._raised = False
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        # Because a second one must not interrupt the cleanup after the first.
        if self._raised:
            return
        self._pending = True
        if self._armed:
            self._raise_pending()

    @property
    def came(self) -> bool:
        return self._raised or self._pending

    def forget(self) -> None:
        self._reason()
        self._pending = False
        # Because an interrupt for the next statement may come before that begins, and must be remembered.
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
            raise interruption(self._reason())
