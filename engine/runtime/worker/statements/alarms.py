"""The alarms of a process, which call a handler of a statement's long after it has ended: what there is, turned off.

Must not know why. Used by `guard`, in a process that is the statements' own.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Final

_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
"""`signal.alarm` is the first of them."""


def turn_off() -> tuple[str, ...]:
    """A phrase for each alarm that was set, and is not any more."""
    phrases: list[str] = []
    # A handler may be called in between, and raise what it likes.
    with suppress(Exception):
        for timer in _TIMERS:
            seconds, interval = signal.setitimer(timer, 0)
            if seconds or interval:
                phrases.append(f"left an alarm to go off in {seconds:.1f} s, which was turned off")
    return tuple(phrases)
