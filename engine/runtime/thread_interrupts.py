"""Interrupts of a statement that runs in a thread: `runtime.worker.interrupts.Interrupts` without a signal.

Python raises an exception in another thread at that thread's next bytecode that looks for one, which may come long
after it was asked for, and by then outside user code. What keeps it inside:

1. It is asked for only under the lock and while the flag says that user code runs, and once in a statement.
2. Whoever takes the flag down under the lock knows that none is asked for any more; one that was asked for and not
   raised yet is raised by the next function call. So `_disarm` makes one, and after it nothing is left to come.
3. Should it be raised on the way into or out of `armed`, the flag may stay up. That is harmless, because of the "once":
   nothing is asked for until `install` or `forget`, which take it down.

All threads of a process share one mark that some of them has an exception to look for; whoever raises its own takes
the mark down, and nobody else does. Two consequences: one thread may take down the mark of another, so an interrupt
that is asked for again puts it up again; and a mark that nobody takes down slows every thread for good, and keeps
CPython 3.11 from tracing at all. So whoever was interrupted takes it down by raising something in itself, and the host
does that for a thread that is left behind.

A thread that waits inside a system call or loops in C looks for nothing; it cannot be interrupted, and one whose loop
keeps the GIL stops the whole process. Used by
`thread_connection`, which interrupts from the host's thread.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator
from contextlib import contextmanager


class ThreadInterrupts:
    """KeyboardInterrupt for the thread that called `install`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0
        self._armed = False
        self._pending = False
        self._raised = False

    def interrupt(self) -> None:
        """Called by any other thread. A second one must not hit what cleans up after the first."""
        with self._lock:
            if self._raised:
                if self._armed:
                    _raise_in(threading.get_ident(), None)
                return
            self._pending = not self._armed
            if self._armed:
                self._raised = True
                _raise_in(self._thread, KeyboardInterrupt)

    def install(self) -> None:
        with self._lock:
            self._thread = threading.get_ident()
            self._armed = False
            self._raised = False

    @property
    def came(self) -> bool:
        with self._lock:
            return self._raised or self._pending

    def forget(self) -> None:
        with self._lock:
            self._armed = False
            self._pending = False
            self._raised = False

    @contextmanager
    def armed(self) -> Generator[None]:
        self._arm()
        try:
            yield
        finally:
            self._disarm()

    @contextmanager
    def held(self) -> Generator[None]:
        if threading.get_ident() != self._thread or not self._armed:
            yield
            return
        self._disarm()
        try:
            yield
        finally:
            self._arm()

    def _arm(self) -> None:
        with self._lock:
            due, self._pending = self._pending, False
            self._armed = not due
            self._raised = self._raised or due
        if due:
            raise KeyboardInterrupt

    def _disarm(self) -> None:
        with self._lock:
            self._armed = False
            was_interrupted = self._raised
        _look_for_exceptions()
        if was_interrupted:
            _take_mark_down()

    def withdraw(self) -> None:
        """Called by the host for a thread that is left behind: what it has not been hit by will not come."""
        with self._lock:
            self._armed = False
        _raise_in(self._thread, None)
        _take_mark_down()


def _look_for_exceptions() -> None:
    """Calling a function is what makes Python look."""


class _Nothing(BaseException):
    """Raised by a thread in itself, and caught at once."""


def _take_mark_down() -> None:
    """Has the calling thread raise an exception, in the place of one that may be waiting for it."""
    try:
        _raise_in(threading.get_ident(), _Nothing)
        _look_for_exceptions()
    except _Nothing:
        pass


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    wanted = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), wanted)
