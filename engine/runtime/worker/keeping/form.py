"""What stands ahead of the pickle of a group: a mark, the version of Python, and whether there is code in it.

A pickle without code can be read by any version of Python; one with code only by that which wrote it. Used by `pickler`
and `loader`.
"""

from __future__ import annotations

import sys
from typing import Final

from .reasons import NotThereError

_MARK: Final = b"RWV\x01"
"""The last byte counts the forms."""
SIZE: Final = len(_MARK) + 3


def header(*, has_code: bool) -> bytes:
    """The bytes ahead of a pickle that this Python has written; SIZE of them."""
    return _MARK + bytes((*sys.version_info[:2], has_code))


def pickle_of(data: bytes) -> memoryview:
    """The pickle after the header.

    Raises:
        NotThereError: this Python cannot read it.
    """
    if data[: len(_MARK)] != _MARK or len(data) <= SIZE:
        raise NotThereError("it was kept by another version of Rewindow, or its copy is damaged")
    *version, has_code = data[len(_MARK) : SIZE]
    if has_code and version != [*sys.version_info[:2]]:
        theirs, ours = (".".join(map(str, each)) for each in (version, sys.version_info[:2]))
        raise NotThereError(f"it holds code of Python {theirs}, which Python {ours} cannot run")
    return memoryview(data)[SIZE:]
