"""`os.utime`: the times at which a file was last read and changed."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from ..workspace import Workspace
from .act import Name, TreeAct, again, pinned, protected_of, there

_SECOND: Final = 10**9
_MOST: Final = 2**63
"""64 bits hold the years 1677 to 2262."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`times` are those of access and of change, in nanoseconds since the epoch; None for now."""

    path: str
    times: tuple[int, int] | None
    follows: bool = True


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that sets them. Raises as `name_at`, and OSError (EOVERFLOW) for times that 64 bits do not hold."""
    if not all(-_MOST <= each < _MOST for each in arguments.times or ()):
        raise OSError(errno.EOVERFLOW, os.strerror(errno.EOVERFLOW), arguments.path)
    name = there(workspace, arguments.path, follows=arguments.follows, changes=False)
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(name),
        do=lambda: _set(workspace, name, arguments.times),
        detail=_said(arguments.times),
        is_minor=True,
    )


def _said(times: tuple[int, int] | None) -> str:
    if times is None:
        return "read and changed now"
    read, changed = map(_moment, times)
    return f"read {read}, changed {changed}"


def _moment(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds // _SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _set(workspace: Workspace, name: Name, times: tuple[int, int] | None) -> None:
    # Of what is set nothing reads before it was set, so the name is compared as it was.
    how: dict[str, Any] = {} if times is None else {"ns": times}
    with again(workspace, name) as place:
        if name.is_file or name.is_directory:
            with pinned(place) as path:
                os.utime(path, **how)
        else:
            os.utime(place.name, **how, dir_fd=place.directory, follow_symlinks=False)
