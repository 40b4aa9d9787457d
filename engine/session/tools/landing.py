"""Writes a changed file atomically, and gives a file its earlier content back."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

import xxhash

from ...files.safe_open import LARGEST, Place, mark_of, sync_directory
from ...files.temporary_files import recorded
from ...log.events.going_back import FileToRestore
from .change import Change
from .read import stale
from .workspace import Target, Workspace

# Puts a changed file in place: whole or not at all, whatever happens meanwhile.
#
# A new file is written beside the old one, made durable and renamed over it. Whoever looks at the path sees the old
# content or the new one; who had opened the file before goes on with the old one. Owns what is kept of the file that
# is replaced: mode bits, access list, user attributes, and the owner where this process may give it. Must not know
# who asked for the change. `confinement` says where it may land, `temporary_files` what a kill leaves. Called by the
# desk.
#
# A hard link is broken: other names of the file keep the old content. To write into the file in place would change it
# under every name, some of which may be outside of the workspace or belong to a store that other projects share, and
# a kill in the middle would leave it half-written.

_RENAMEAT2: Final = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
"""None in a C library that is too old."""
_RENAME_NOREPLACE: Final = 1
_USUAL_MODE: Final = 0o666
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")
_SINCE: Final = "the change was asked for"
_NOT_SUPPORTED: Final = (errno.ENOSYS, errno.EINVAL)


def land(workspace: Workspace, change: Change, hold: Callable[[str], None] | None = None) -> int | None:
    """Makes the file what it is to be, and missing directories above it; blocks until that is durable.

    `hold` is called with the absolute path under which the new file is until it takes its place: a mount on it goes
    along, where one on the file that it replaces ends. What it raises is raised, and nothing is written.

    Returns the permission bits that it has then.

    Raises:
        OSError: ESTALE where the file is not `change.before` any more, is elsewhere, or has become protected; the
            operating system's own reason otherwise. The file is as it was then, and nothing else is left.
    """
    with _explained(change.path), placed(workspace, change.path, making=True) as target:
        place, shown = target.place, workspace.shown(change.path)
        if target.protected and not change.protected:
            raise stale(f"the place of {shown}", _SINCE, None, b"")
        seen = _check_unchanged(place, change, shown)
        if change.after != change.before:
            return replace_file(place, change.after, seen, workspace, first=change.mode, hold=hold)
        return None if seen is None else stat.S_IMODE(seen.st_mode)


@contextlib.contextmanager
def placed(workspace: Workspace, path: str, *, making: bool) -> Generator[Target]:
    """The place of the file that is really at `path`; as `Workspace.to_write`.

    Raises OSError also where the path leads elsewhere by now (ESTALE).
    """
    with workspace.to_write(path, making=making) as target:
        if target.place.path != path:
            raise stale(f"the place of {workspace.shown(path)}", _SINCE, None, b"")
        yield target


def _check_unchanged(place: Place, change: Change, shown: str) -> os.stat_result | None:
    """The state of the file as compared; None where there is none."""
    with place.opened() as file:
        found = None if file is None else os.fstat(file.fileno())
        present = None if file is None else file.read(len(change.before or b"") + 1)
        if present != change.before:
            rest = b"" if file is None else file.read(LARGEST)
            raise stale(shown, _SINCE, change.before, None if present is None else present + rest)
    return found


@contextlib.contextmanager
def _explained(path: str) -> Generator[None]:
    """Names the file, not what it was to be made of, and says that it is as it was."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise
        raise OSError(error.errno, f"{error.strerror}; nothing was written", path) from None


def replace_file(
    place: Place,
    data: bytes,
    seen: os.stat_result | None,
    workspace: Workspace,
    mode: int | None = None,
    *,
    first: int | None = None,
    hold: Callable[[str], None] | None = None,
) -> int:
    """Makes the file hold `data`, durably. Returns the permission bits that it has then.

    Args:
        seen: its state as it was compared, None for no file.
        mode: the permission bits that it is to have; None leaves it those that it has, or what the umask leaves.
        first: of these the umask leaves some to a new file; None for the usual ones.
        hold: as of `land`.

    Raises:
        OSError: ESTALE where it is in another state by now.
    """
    place.check_writable()
    with recorded(workspace.records, place.folder) as temporary:
        try:
            given = _fill(place, temporary, data, seen, mode, _USUAL_MODE if first is None else first)
            if hold is not None:
                hold(os.path.join(place.folder, temporary))
            # Looked at once more, because making it durable takes the disk's time, and people save files.
            if not _is_still(place, seen):
                raise stale(workspace.shown(place.path), _SINCE, None, b"")
            _rename(place, temporary, replacing=seen is not None)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=place.directory)
            raise
        sync_directory(place.directory)
    return given


def remove(place: Place, seen: os.stat_result | None, workspace: Workspace) -> None:
    """Removes the file, durably. Arguments and errors as `replace_file`."""
    place.check_writable()
    if not _is_still(place, seen):
        raise stale(workspace.shown(place.path), _SINCE, None, b"")
    os.unlink(place.name, dir_fd=place.directory)
    sync_directory(place.directory)


def _fill(
    place: Place, temporary: str, data: bytes, replaced: os.stat_result | None, mode: int | None, usual: int
) -> int:
    # Nobody else may read it before it has the rights that it is to have.
    first = usual if replaced is None and mode is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, first, dir_fd=place.directory)
    with open(descriptor, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        if replaced is not None:
            _take_over(place, descriptor, replaced)
        if mode is not None:
            with contextlib.suppress(PermissionError):  # because not every file system has modes
                os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        return stat.S_IMODE(os.fstat(descriptor).st_mode)


def _take_over(place: Place, descriptor: int, replaced: os.stat_result) -> None:
    """Gives the new file the rights of the old one, as far as this process may."""
    mode = stat.S_IMODE(replaced.st_mode)
    try:
        os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
    except PermissionError:
        # What runs with its owner's rights must not run with those of another owner.
        mode &= ~(stat.S_ISUID | stat.S_ISGID)
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, -1, replaced.st_gid)
    # Suppressed because not every file system has modes or attributes.
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, mode)
    with contextlib.suppress(OSError), place.opened() as old:
        if old is not None:
            for name in os.listxattr(old.fileno()):
                if name.startswith(_KEPT_ATTRIBUTES):
                    os.setxattr(descriptor, name, os.getxattr(old.fileno(), name))


def _is_still(place: Place, seen: os.stat_result | None) -> bool:
    try:
        now = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return seen is None
    return seen is not None and identity_of(now) == identity_of(seen)


def identity_of(found: os.stat_result) -> tuple[int, ...]:
    """What changes with the content of a file, its permissions or its owner; another name for it changes nothing."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid, found.st_gid


def _rename(place: Place, temporary: str, *, replacing: bool) -> None:
    if replacing or not _renamed_to_nothing(place, temporary):
        os.rename(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)


def _renamed_to_nothing(place: Place, temporary: str) -> bool:
    """Renames unless somebody has made such a file meanwhile; False where the file system cannot say so."""
    if _RENAMEAT2 is None:
        return False
    names = os.fsencode(temporary), os.fsencode(place.name)
    if _RENAMEAT2(place.directory, names[0], place.directory, names[1], _RENAME_NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    if number == errno.EEXIST:
        raise stale(place.path, _SINCE, None, b"")
    raise OSError(number, os.strerror(number))


# restoring:
# Gives one file back what it held: the counterpart of a landing, for a rewind.
#
# The file is compared with what is expected there before anything is done, and looked at once more right before the
# act; whoever looks at the path sees the one content or the other. Must not know which file is to go back, nor why.
# Called by `sessions.rewinding`, on a thread.

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
