"""How a worker ended, in words that a user reads in the record of an execution. Used by the connections."""

from __future__ import annotations

import os
import signal

from msgspec import Struct

from .worker.channel import EXIT_CHANNEL_LOST


class Death(Struct, frozen=True):
    """The worker is gone, and why, in words. `again`: it was never there, and another parent may well have one."""

    reason: str
    again: bool = False


def describe_status(status: int, who: str) -> str:
    """What `waitpid` said, in words; `who` ended: the worker, or a program's keeper."""
    code = os.waitstatus_to_exitcode(status)
    if code == EXIT_CHANNEL_LOST:
        return "the statement closed the connection between the worker and its host"
    if code >= 0:
        return f"{who} exited with code {code}"
    try:
        return f"{who} was killed by {signal.Signals(-code).name} ({signal.strsignal(-code)})"
    except ValueError:
        return f"{who} was killed by signal {-code}"
