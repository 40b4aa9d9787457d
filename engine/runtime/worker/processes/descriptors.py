"""Which descriptors a forked process keeps of its parent's. Called by `child` and `program`."""

from __future__ import annotations

import os
from typing import Final

_STREAMS: Final = 3


def close_all_but(*kept: int) -> None:
    """Closes all others but the three streams: the channels of other processes among what the zygote has open."""
    highest = max(map(int, os.listdir("/proc/self/fd")), default=0)
    for low, high in zip((_STREAMS - 1, *sorted(kept)), (*sorted(kept), highest + 2), strict=True):
        os.closerange(low + 1, high)
