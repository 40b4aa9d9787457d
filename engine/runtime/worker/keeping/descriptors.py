"""Where the descriptors of this package are: out of a statement's way, and none of a statement's in a child.

Used by `copies`, and for copies of a worker by `checkpoint` and `separation`.
"""

from __future__ import annotations

import fcntl
import os
import resource
from typing import Final

_RESERVED: Final = 8
"""As many at the top of the limit are ours, the socket to the host among them."""


def is_high(descriptor: int) -> bool:
    """Whether it is among those that are ours."""
    return descriptor >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED


def keep_high(descriptor: int) -> int:
    """Moves it to the top of the limit, where statements neither see a gap in their numbers nor close it by chance."""
    floor = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, floor)
    except OSError:
        # All of those are in use.
        return descriptor
    os.close(descriptor)
    return moved


def close_others(kept: int) -> None:
    """In a forked process: /dev/null on the three standard streams, and nothing else open but `kept`."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
