"""The work "content": a file is read beside, and where it is not what its view shows, the tick gets what it holds.

Only files of the workspace are read, because the wish comes from the process that runs statements, and this one may
read more than that may. Of other files, and of contents that are too large for a payload or hold a secret, the tick is
told that they differ, and looks itself. A read that hangs, because a file system is away, is left to itself when the
session is closed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

import anyio.to_thread

from ...files.paging import is_page
from ...files.revision import Found, is_glob
from ...log.statements import PAYLOAD_BYTES, Want
from .sources import Made, Sources

_FILES: Final = ("text", "binary")
"""States of which a payload can hold the content."""
_NOT_READ: Final = ("unreadable", "too large")
"""States that say nothing of the content: the tick looks itself, which may show a part of a large file."""


async def content(want: Want, sources: Sources) -> Made | None:
    """The content of the file at `want.path` as a `render`, or that there is another as a `diff`."""
    if is_glob(want.path) or is_page(want.path):
        return None  # because no view is of one, and to list a tree for whoever asks is dear
    return await anyio.to_thread.run_sync(_made, want, sources, abandon_on_cancel=True)


def _made(want: Want, sources: Sources) -> Made | None:
    found = sources.disk.look(want.path, want.title, sources.seen.get(want.path))
    if found.revision.state in _NOT_READ:
        return Made(payload_kind="diff", mark=_stamp(want.path))
    if found.revision.mark == want.basis.obj_digest_hash:
        sources.seen[want.path] = _without_lines(found)
        return None
    if found.revision.state not in _FILES:
        return Made(payload_kind="diff", mark=found.revision.mark)
    if found.data is None:
        found = sources.disk.look(want.path, want.title, None)
    sources.seen[want.path] = _without_lines(found)
    data = found.data
    if data is None or len(data) > PAYLOAD_BYTES or sources.redactor.holds(data.decode("utf-8", "replace")):
        return Made(payload_kind="diff", mark=found.revision.mark)
    return Made(payload_kind="render", data=data, mark=found.revision.digest)


def _without_lines(found: Found) -> Found:
    """What the next look is compared with, without holding the file in memory."""
    return Found(replace(found.revision, lines=()), found.stamp)


def _stamp(path: str) -> str:
    """What changes with a file, wherever it is; empty where there is none, or it cannot be told."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"
