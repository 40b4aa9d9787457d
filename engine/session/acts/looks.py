"""What a file holds at one moment, as far as it is kept: its content, or a mark of its state, and its permissions.

Only regular files are opened (`pinned`), and only where they were said to be: a statement names the file, and its
processes may put a link above it before the host looks, which has rights that the statement has not. Blocks, so it is
called on a thread. Must not know why somebody looks. Used by `touches` for what a statement's own code writes, and by
`acts` for what goes with a name.
"""

from __future__ import annotations

import os

import xxhash
from msgspec import Struct

from ...files.safe_open import Pinned, is_on_procfs, pinned


class Look(Struct, frozen=True):
    """A file at one moment: `mark` and `mode` as in `Pinned`; `reason` says why the content is not there."""

    digest: str = ""
    mark: str = ""
    data: bytes | None = None
    reason: str = ""
    mode: int | None = None


def look(place: str, limit: int) -> Look:
    """What the file at a real absolute place holds, where that has at most `limit` bytes.

    A link, a directory or a device is no file, nor is what a link above the name leads to.
    """
    try:
        found = pinned(place, follows=False)
    except (OSError, ValueError):
        return Look()  # because what is above it is gone
    try:
        if found.kind != "file" or found.place != os.fsencode(place) or is_on_procfs(found.descriptor):
            return Look()
        return _read(found, limit)
    except OSError:
        return Look()  # because its file system does not answer
    finally:
        found.close()


def _read(found: Pinned, limit: int) -> Look:
    if found.size <= limit:
        try:
            data = b"".join(found.pieces(limit + 1))
        except OSError as error:
            return Look(found.mark, found.mark, reason=f"it cannot be read: {error.strerror}", mode=found.mode)
        if len(data) <= limit:
            return Look(xxhash.xxh3_64_hexdigest(data), found.mark, data, mode=found.mode)
    return Look(found.mark, found.mark, reason=f"it has more than {limit >> 20} MiB", mode=found.mode)
