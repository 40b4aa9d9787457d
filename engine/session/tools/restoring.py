"""Gives one file back what it held: the counterpart of a landing, for a rewind.

The file is compared with what is expected there before anything is done, and looked at once more right before the act;
whoever looks at the path sees the one content or the other. Must not know which file is to go back, nor why. Called by
`sessions.rewinding`, on a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, NamedTuple

import xxhash

from ...files.safe_open import LARGEST, Place, mark_of
from ...log.events.going_back import FileToRestore
from .landing import placed, remove, replace_file
from .workspace import Workspace

_PERMISSIONS: Final = 0o777
_REPLACED: Final = "\ufffd"
_CHANGED: Final = "it has changed since the session last wrote it"
_MODE: Final = "its permissions have changed since the session last wrote it: {:o} -> {:o}"
_ATTRIBUTES: Final = "somebody has given it attributes since the session wrote it: {}"
_REMOVED: Final = "it was removed since the session last wrote it"
_UNTRUSTED: Final = "what it held was reported by a statement or an import, and {}; put it back yourself"
_UNKNOWN: Final = "its name is no text, and there is no such file any more"


class Replaced(NamedTuple):
    """What a file held until it was replaced; None for no file, and where that was not read."""

    data: bytes | None


def restore(
    workspace: Workspace, file: FileToRestore, wanted: bytes | None, *, is_trusted: bool = True
) -> Replaced | None:
    """Makes the file hold `wanted`, None for no file; blocks until that is durable.

    Directories that are missing above it are made; those that a removal leaves empty stay.

    Returns:
        None where it held that already, and nothing was done.

    Args:
        is_trusted: whether the content was read here, not reported by somebody; else a protected file is left alone.

    Raises:
        OSError: it does not hold what is expected, has other permissions, or is elsewhere now; it lies outside of the
            workspace; it is protected, and the content is not trusted; or the operating system's own reason. The file
            is as it was then.
        ValueError: the path holds a NUL character.
    """
    path = workspace.absolute(file.path)
    if _REPLACED in path:
        raise OSError(errno.ENOENT, _UNKNOWN, file.path)
    try:
        with placed(workspace, path, making=wanted is not None and not file.present_digest) as target:
            if target.protected and not is_trusted:
                raise PermissionError(errno.EPERM, _UNTRUSTED.format(target.protected), file.path)
            return _restore(target.place, file, wanted, workspace)
    except OSError as error:
        if error.errno == errno.ESTALE:  # it says what whoever asks for a change is to do
            raise OSError(errno.ESTALE, _CHANGED, file.path) from None
        raise


def _restore(place: Place, file: FileToRestore, wanted: bytes | None, workspace: Workspace) -> Replaced | None:
    seen, digests, data = _look(place)
    if file.wanted_digest in digests:
        return None
    if file.present_digest not in digests:
        if seen is None:
            raise FileNotFoundError(errno.ENOENT, _REMOVED, file.path)
        raise OSError(errno.ESTALE, _CHANGED, file.path)
    if seen is not None:
        _check_rights(place, file, seen)
    if wanted is None:
        remove(place, seen, workspace)
    else:
        replace_file(place, wanted, seen, workspace, _mode(file.wanted_mode, seen))
    return Replaced(data)


def _check_rights(place: Place, file: FileToRestore, seen: os.stat_result) -> None:
    """Raises OSError where somebody has changed what a new content would not keep: permissions, or all of a file.

    A file that is replaced keeps its owner, its access list and its attributes, whoever gave them.
    """
    present, expected = stat.S_IMODE(seen.st_mode), file.present_mode
    # Bits beyond the permissions may be gone, because a replacement by another owner does not keep them.
    if expected is not None and ((present ^ expected) & _PERMISSIONS or present & ~expected & ~_PERMISSIONS):
        raise OSError(errno.EBUSY, _MODE.format(expected, present), file.path)
    if file.wanted_digest:
        return
    with place.opened() as opened:
        try:
            names = [] if opened is None else os.listxattr(opened.fileno())
        except OSError:
            return  # because not every file system has attributes
    given = sorted(name for name in names if name.startswith("user."))
    if given:
        raise OSError(errno.EBUSY, _ATTRIBUTES.format(", ".join(given)), file.path)


def _mode(wanted: int | None, seen: os.stat_result | None) -> int | None:
    """The permission bits that the file is to get; None where it has them, or nobody knows which they were.

    Those that give it its owner's rights are left as they are, because a log is not to be believed in that.
    """
    if wanted is None or (seen is not None and not (wanted ^ seen.st_mode) & _PERMISSIONS):
        return None
    return wanted & _PERMISSIONS


def _look(place: Place) -> tuple[os.stat_result | None, tuple[str, ...], bytes | None]:
    """The state of the file, what may stand for its content, and the content as far as that is read at all."""
    with place.opened() as file:
        if file is None:
            return None, ("",), None
        state = os.fstat(file.fileno())
        data = file.read(LARGEST + 1) if state.st_size <= LARGEST else None
    mark = mark_of(state)
    if data is None or len(data) > LARGEST:
        return state, (mark,), None
    return state, (xxhash.xxh3_64_hexdigest(data), mark), data
