"""The error for a file that is not as whoever changes it has last seen it, with what differs where that is known.

Pure. Raised by landings, where a file was changed after somebody was asked about it, and by `seen`.
"""

from __future__ import annotations

import errno
from typing import Final

from ...core.toolbox import STALE
from ...files.changes import describe
from ...files.revision import decoded

MOST_CHARS: Final = 2_000
"""Of the difference, which the error repeats."""
ADVICE: Final = "look at it again with view() or read(), and change it then"


def stale(path: str, since: str, known: bytes | None = None, present: bytes | None = None) -> OSError:
    """The error (ESTALE).

    Args:
        path: as the error names the file.
        since: when it was seen, as a clause: "it was last read".
        known: what it held then; None where that is not known, or where there was no file.
        present: what it holds now; None where there is no file any more.
    """
    if present is None:
        return OSError(errno.ESTALE, f"{path} was removed since {since}")
    sentence = f"{path} {STALE} {since}; {ADVICE}"
    return OSError(errno.ESTALE, sentence if known is None else f"{sentence}. {difference(path, known, present)}")


def difference(path: str, before: bytes, after: bytes) -> str:
    """What differs, as a summary and a diff of at most `MOST_CHARS` characters."""
    old, new = decoded(before), decoded(after)
    return describe(path, old.lines, new.lines, len, MOST_CHARS)[1]
