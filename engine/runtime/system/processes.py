"""A hold on one process, so that a signal never reaches another process that got its id.

On Linux, a descriptor of the kernel pins the process. Elsewhere, a kernel queue reports its end, and no signal is sent
after that. In between, the process could end, its parent take its exit status, and another process get its id: the
caller's own child keeps its id until the caller takes the status, and ids of others are not reused that fast. Must not
know what the process does. Must load quickly, because the host starts its zygote before anything else.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Callable
from types import TracebackType

# Bound here, because a statement may replace it.
_poll = select.poll


def _as_it_is(descriptor: int) -> int:
    return descriptor


def _is_readable(descriptor: int, seconds: float | None) -> bool:
    poll = _poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


if sys.platform == "linux":

    class ProcessHandle:
        """A process; its descriptor is readable once it has ended, even if nobody has taken its exit status.

        Raises:
            OSError: there is no such process, or no descriptor.
        """

        __slots__ = ("_descriptor",)

        def __init__(self, pid: int, place: Callable[[int], int] = _as_it_is) -> None:
            """`place` moves a descriptor to another number, where the system permits that."""
            self._descriptor = place(os.pidfd_open(pid))

        @classmethod
        def of(cls, descriptor: int) -> ProcessHandle:
            """The process of a descriptor that the kernel made with it."""
            handle = cls.__new__(cls)
            handle._descriptor = descriptor
            return handle

        def __enter__(self) -> ProcessHandle:
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
        ) -> None:
            self.close()

        def fileno(self) -> int:
            return self._descriptor

        def send(self, number: signal.Signals) -> None:
            """Send a signal. Raises OSError, for instance if the process has ended."""
            signal.pidfd_send_signal(self._descriptor, number)

        def ended_within(self, seconds: float | None) -> bool:
            """Wait for its end, not longer than this; None waits without a limit. Return whether it has ended."""
            return _is_readable(self._descriptor, seconds)

        def close(self) -> None:
            os.close(self._descriptor)

else:

    class ProcessHandle:
        """The same with a kernel queue. A process that this one forks has no part of it."""

        __slots__ = ("_pid", "_queue")

        def __init__(self, pid: int, place: Callable[[int], int] = _as_it_is) -> None:
            self._pid, self._queue = pid, select.kqueue()
            flags, end = select.KQ_EV_ADD, select.KQ_NOTE_EXIT
            self._queue.control([select.kevent(pid, select.KQ_FILTER_PROC, flags, end)], 0)

        def __enter__(self) -> ProcessHandle:
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
        ) -> None:
            self.close()

        def fileno(self) -> int:
            return self._queue.fileno()

        def send(self, number: signal.Signals) -> None:
            if self.ended_within(0):
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            os.kill(self._pid, number)

        def ended_within(self, seconds: float | None) -> bool:
            return _is_readable(self._queue.fileno(), seconds)

        def close(self) -> None:
            self._queue.close()
