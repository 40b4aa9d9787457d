"""The kernel's limits for what runs below the zygote: bytes of data, open files, and no core dump.

Must not know what runs. Called in the forked child, by `child` and by `program`.
"""

from __future__ import annotations

import resource


def set_limits(data_bytes: int, open_files: int) -> None:
    """Limits this process and all that it starts, for good. A limit that is lower already stays."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_DATA, data_bytes)
    _lower(resource.RLIMIT_NOFILE, open_files)


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
