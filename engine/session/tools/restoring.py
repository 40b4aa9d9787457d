"""Gives a file, a link or a directory its earlier state back, for rewinds.

What is there now is compared with what the session left there, and its state again right before it is replaced. If
somebody else has changed it since, it stays as it is. A file is replaced as `landing` does, a link by a rename; a
directory is removed only if it is empty. Called by `past.rewinding`, on a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final, NamedTuple

import xxhash

from ...core.domain import is_inside
from ...core.execution import DIRECTORY, LINK
from ...files.pins import PIN, set_mode
from ...files.safe_open import LARGEST, Place, mark_of, opened_directory, sync_directory
from ...files.spellings import stored_name
from ...files.temporary_files import recorded
from ...log.events.going_back import FileToRestore
from ...runtime.system import attributes
from .landing import Sync, identity_of, placed, remove, replace_file
from .workspace import REPLACED, Target, Workspace

_PERMISSIONS: Final = 0o777
CHANGED: Final = "the file has changed since the session last wrote it"
CHANGED_MODE: Final = "the permissions have changed since the session last wrote the file: {:o} -> {:o}"
_SPECIAL: Final = "set-user-id, set-group-id and sticky bits are not restored"
_ATTRIBUTES: Final = "attributes were added since the session last wrote the file: {}"
_REMOVED: Final = "the file was removed since the session last wrote it"
_NOT_EMPTY: Final = "the directory has other files now"
UNTRUSTED: Final = "the earlier content comes from a statement or an import, and {}; restore the file yourself"
_UNKNOWN: Final = "the name is not UTF-8, and the file does not exist any more"


class Replaced(NamedTuple):
    """The content that was replaced; None if there was no file, or it was not read."""

    data: bytes | None


class _Found(NamedTuple):
    """What is at a place: its state, the digests that may denote it, and a file's content if it is not too large."""

    state: os.stat_result | None
    digests: tuple[str, ...]
    data: bytes | None = None


def restore(
    workspace: Workspace,
    file: FileToRestore,
    wanted: bytes | None,
    *,
    is_trusted: bool = True,
    sync: Sync = sync_directory,
) -> Replaced | None:
    """Bring back the state `file.wanted_digest`, with the content `wanted`; block until that is durable.

    Without a wanted digest nothing was there. Missing directories are created.

    Returns:
        None if it had that state already.

    Args:
        is_trusted: the host itself read the content. If not, a protected file is left alone.
        sync: makes changed names durable, at once or later.

    Raises:
        OSError: its content or permissions are not the expected ones; it has moved, or is outside the workspace; it is
            protected, and the content is untrusted; a directory is not empty; or the system's reason. It is unchanged
            then.
        ValueError: the path contains a NUL character.
    """
    path = workspace.absolute(file.path)
    if REPLACED in path:
        raise OSError(errno.ENOENT, _UNKNOWN, file.path)
    making = bool(file.wanted_digest) and not file.present_digest

    def check(target: Target) -> None:
        if not is_trusted and (why := target.protected):
            raise PermissionError(errno.EPERM, UNTRUSTED.format(why), file.path)

    try:
        if not _spelled(workspace, path, making=making, sync=sync):
            return None
        with placed(workspace, path, check, making=making, follows=False, as_spelled=True) as place:
            return _restore(place, file, wanted, workspace, sync)
    except OSError as error:
        if error.errno == errno.ESTALE:  # whose message is advice for a statement
            raise OSError(errno.ESTALE, CHANGED, file.path) from None
        raise


def _spelled(workspace: Workspace, path: str, *, making: bool, sync: Sync) -> bool:
    """Let the directories above a name have its spelling (`spellings`), if it is to be made there.

    Return whether they have it. If not, the name is not there: the directory was renamed since.
    """
    root = next((each for each in workspace.real_roots if is_inside(path, (each,))), path)
    here, *below = root, *os.path.relpath(os.path.dirname(path), root).split(os.sep)
    for part in below:
        if part in (os.curdir, os.pardir) or not os.path.isdir(os.path.join(here, part)):
            break
        with opened_directory(here, workspace.roots) as directory:
            stored = stored_name(directory, part)
            if stored != part and not making:
                return False
            if stored != part:
                os.rename(stored, part, src_dir_fd=directory, dst_dir_fd=directory)
                sync(directory)
        here = os.path.join(here, part)
    return True


def _restore(
    place: Place, file: FileToRestore, wanted: bytes | None, workspace: Workspace, sync: Sync
) -> Replaced | None:
    found = _look(place)
    stored = place.name if place.missing else stored_name(place.directory, place.name)
    if stored != place.name and not file.wanted_digest:
        return None  # its name has changed
    if stored != place.name and file.wanted_digest in found.digests:
        os.rename(stored, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
        sync(place.directory)
        return Replaced(found.data)
    return _replace(place, file, wanted, workspace, sync, found)


def _replace(
    place: Place, file: FileToRestore, wanted: bytes | None, workspace: Workspace, sync: Sync, found: _Found
) -> Replaced | None:
    if file.wanted_digest in found.digests:
        sync(place.directory)  # because a process that was killed may have put it there, and not made it durable
        return _restore_mode(place, file, found)
    if file.present_digest not in found.digests:
        if found.state is None:
            raise FileNotFoundError(errno.ENOENT, _REMOVED, file.path)
        raise OSError(errno.ESTALE, CHANGED, file.path)
    is_file = found.state is not None and stat.S_ISREG(found.state.st_mode)
    if found.state is not None and is_file:
        _check_rights(place, file, found.state)
    is_link_next = file.wanted_digest.startswith(LINK)
    is_renamed_over = wanted is not None and not is_link_next and (is_file or _is_link(found))
    if not is_renamed_over:
        _clear(place, found, workspace, sync, is_link_next=is_link_next)
        found = _Found(None, ("",), found.data)
    if file.wanted_digest == DIRECTORY:
        _make_directory(place, file.wanted_mode, sync)
    elif is_link_next:
        _make_link(place, wanted or b"", workspace, sync)
    elif wanted is not None:
        mode = _mode(file.wanted_mode, None if _is_link(found) else found.state)
        replace_file(place, wanted, found.state, workspace, mode, sync=sync)
    return Replaced(found.data)


def _is_link(found: _Found) -> bool:
    return found.state is not None and stat.S_ISLNK(found.state.st_mode)


def _restore_mode(place: Place, file: FileToRestore, found: _Found) -> Replaced | None:
    """Set only the permissions, if the session changed only these and they still are as it left them."""
    state, wanted = found.state, file.wanted_mode
    is_set = state is None or wanted is None or stat.S_ISLNK(state.st_mode) or file.present_mode is None
    if is_set or file.present_digest != file.wanted_digest:
        return None
    assert state is not None
    assert wanted is not None
    mode = stat.S_IMODE(state.st_mode)
    # Bits beyond the permissions may go, but a log is not trusted to give them.
    given = (mode & wanted & ~_PERMISSIONS) | (wanted & _PERMISSIONS)
    if given == mode:
        if wanted & ~mode:
            raise OSError(errno.EPERM, _SPECIAL, file.path)
        return None
    _check_rights(place, file, state)
    pin = os.open(place.name, PIN | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.directory)
    try:
        if identity_of(os.fstat(pin)) != identity_of(state):
            raise OSError(errno.ESTALE, CHANGED, file.path)
        set_mode(pin, given)
    finally:
        os.close(pin)
    return Replaced(found.data)


def _clear(place: Place, found: _Found, workspace: Workspace, sync: Sync, *, is_link_next: bool) -> None:
    """Remove what is there, unless a rename replaces it."""
    if found.state is None:
        return
    if stat.S_ISDIR(found.state.st_mode):
        try:
            os.rmdir(place.name, dir_fd=place.directory)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise OSError(errno.ENOTEMPTY, _NOT_EMPTY, place.path) from None
            raise
        sync(place.directory)
    elif stat.S_ISLNK(found.state.st_mode):
        if not is_link_next:
            place.check_folder()
            os.unlink(place.name, dir_fd=place.directory)
            sync(place.directory)
    elif not is_link_next:
        remove(place, found.state, workspace, sync=sync)


def _make_directory(place: Place, mode: int | None, sync: Sync) -> None:
    os.mkdir(place.name, dir_fd=place.directory)
    if mode is not None:
        # Opened, because a program may exchange it for a link.
        made = os.open(place.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.directory)
        try:
            os.fchmod(made, mode & _PERMISSIONS)
        finally:
            os.close(made)
    sync(place.directory)


def _make_link(place: Place, target: bytes, workspace: Workspace, sync: Sync) -> None:
    with recorded(workspace.records, place.folder) as temporary:
        os.symlink(target, os.fsencode(temporary), dir_fd=place.directory)
        try:
            os.rename(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=place.directory)
            raise
        sync(place.directory)


def _check_rights(place: Place, file: FileToRestore, seen: os.stat_result) -> None:
    """Raise OSError if a change since the session's write would be lost: permissions, or attributes if it is removed.

    A replacement keeps owner, access list and attributes.
    """
    present, expected = stat.S_IMODE(seen.st_mode), file.present_mode
    # Bits beyond the permissions may be gone, because a replacement by another owner does not keep them.
    if expected is not None and ((present ^ expected) & _PERMISSIONS or present & ~expected & ~_PERMISSIONS):
        raise OSError(errno.EBUSY, CHANGED_MODE.format(expected, present), file.path)
    if file.wanted_digest:
        return
    with place.opened() as opened:
        try:
            names = [] if opened is None else attributes.names_of(opened.fileno())
        except OSError:
            return  # because not every file system has attributes
    given = sorted(name for name in names if name.startswith("user."))
    if given:
        raise OSError(errno.EBUSY, _ATTRIBUTES.format(", ".join(given)), file.path)


def _mode(wanted: int | None, seen: os.stat_result | None) -> int | None:
    """The permission bits to set; None if it has them, or they are unknown.

    Set-user-ID, set-group-ID and sticky bits are not restored, because a log is not trusted for that.
    """
    if wanted is None or (seen is not None and not (wanted ^ seen.st_mode) & _PERMISSIONS):
        return None
    return wanted & _PERMISSIONS


def _look(place: Place) -> _Found:
    if place.missing:
        return _Found(None, ("",))
    try:
        state = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return _Found(None, ("",))
    if stat.S_ISDIR(state.st_mode):
        return _Found(state, (DIRECTORY,))
    if stat.S_ISLNK(state.st_mode):
        target = os.readlink(os.fsencode(place.name), dir_fd=place.directory)
        return _Found(state, (f"{LINK}{xxhash.xxh3_64_hexdigest(target)}",))
    with place.opened() as file:
        if file is None:
            return _Found(None, ("",))
        state = os.fstat(file.fileno())
        data = file.read(LARGEST + 1) if state.st_size <= LARGEST else None
    mark = mark_of(state)
    if data is None or len(data) > LARGEST:
        return _Found(state, (mark,))
    return _Found(state, (xxhash.xxh3_64_hexdigest(data), mark), data)
