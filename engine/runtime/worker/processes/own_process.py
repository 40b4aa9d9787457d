"""Which process is the worker: what a statement forks is another, until it takes the worker's place.

A forked copy of a worker finds all of its objects, and most of them must do nothing there. They ask here instead of
keeping an id of their own, because a restored worker is a forked copy that goes on as the worker. Must not know who
asks, nor how copies are made. Also right in a host, which has statements in a thread of its own.
"""

from __future__ import annotations

import os

_pid = os.getpid()


def is_own() -> bool:
    """Whether this is the worker itself and not something that it forked."""
    return os.getpid() == _pid


def take_place() -> None:
    """From now on this process is the worker, for all that was copied into it."""
    global _pid  # noqa: PLW0603 -- a process is one thing, whoever asks
    _pid = os.getpid()
