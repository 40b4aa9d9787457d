"""How much a scratch directory holds.

The kernel has no limit for a directory that survives a worker and that the host can read: one for memory ends with the
mount, one for a disk is the administrator's. So it is counted. Must not know whose it is. Called by `memory`.
"""

from __future__ import annotations

import errno
import math
import os
from typing import Final

_BLOCK: Final = 512
_LEAST: Final = 4096
"""What a file or a directory counts at least, so that the number of them is bounded too, and a count ends."""


def held(directory: str, enough: int, since: float = math.inf) -> int:
    """Bytes on the disk of all that is in it, links not followed; the count ends where it is above `enough`.

    What has changed `since` that time, in seconds since the epoch, is left out.

    It is above that, too, where a path in it is longer than the kernel takes.
    """
    total, waiting = 0, [directory]
    while waiting and total <= enough:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if found.st_ctime < since:  # which nobody can set
                        total += max(found.st_blocks * _BLOCK, _LEAST)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if total > enough:
                        break
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return enough + 1  # or whatever is deeper than a path can be long would not count
            continue  # it goes while we look
    return total
