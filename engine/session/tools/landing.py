"""Puts a changed file in place, whole or not at all.

A new file is written beside the old one, made durable, and renamed over it. Readers of the path see the old content or
the new one; a process that had the file open keeps the old one. The new file takes over the mode, access list, user
attributes, and the owner if this process may set it.

A hard link is broken: other names of the file keep the old content. Writing in place would change the file under every
name. Some of these may be outside the workspace, or in a store that projects share. A kill would leave it half-written.

Must not know who asked for the change. `Workspace` says where a file may be written, `temporary_files` cleans up after
a kill. Called by `tool_calls`, and by `restoring` for rewinds, on a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from ...core.durable import sync
from ...files.revision import Hide
from ...files.safe_open import LARGEST, Place, sync_directory
from ...files.temporary_files import recorded
from ...runtime.system import attributes, names
from .change import Change
from .read import changed_since, stale
from .workspace import Target, Workspace

Sync = Callable[[int], None]
"""Makes the names in a pinned directory durable."""
_USUAL_MODE: Final = 0o666
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")
_SINCE: Final = "the change was requested"


def land(workspace: Workspace, change: Change, hold: Callable[[str], None] | None = None) -> int | None:
    """Perform the change, and create missing directories above the file; block until it is durable.

    `hold` is called with the absolute path of the new file before it replaces the old one: a mount on the new file
    moves with it, while a mount on the old one ends. If `hold` raises, nothing is written.

    Returns the file's permission bits afterwards.

    Raises:
        OSError: ESTALE if the content is not `change.before` any more, or the file moved or became protected; else the
            system's reason. The file is unchanged then, and nothing else remains.
    """
    shown = workspace.shown(change.path)

    def check(target: Target) -> None:
        if not change.protected and target.protected:
            raise changed_since(f"the place of {shown}", _SINCE)

    with _explained(change.path), placed(workspace, change.path, check, making=True) as place:
        seen = _check_unchanged(place, change, shown, workspace.hide)
        if change.after != change.before:
            return replace_file(place, change.after, seen, workspace, first=change.mode, hold=hold)
        return None if seen is None else stat.S_IMODE(seen.st_mode)


@contextlib.contextmanager
def placed(
    workspace: Workspace,
    path: str,
    check: Callable[[Target], None],
    *,
    making: bool,
    follows: bool = True,
    as_spelled: bool = False,
) -> Generator[Place]:
    """The pinned place of the real path `path`; as `Workspace.to_write`.

    `check` raises if nothing may be written there. It is called before directories are made, because one of them may be
    what makes other files a repository.

    Also raises OSError (ESTALE) if the path now leads elsewhere.
    """
    target_at = partial(workspace.to_write, path, follows=follows, as_spelled=as_spelled)
    if making:
        with target_at() as target:
            if target.place.missing:
                check(target)
    with target_at(making=making) as target:
        if target.place.path != path:
            raise changed_since(f"the place of {workspace.shown(path)}", _SINCE)
        check(target)
        yield target.place


def _check_unchanged(place: Place, change: Change, shown: str, hide: Hide) -> os.stat_result | None:
    """Compare the content with `change.before`; return the file's state, None if there is no file."""
    with place.opened() as file:
        found = None if file is None else os.fstat(file.fileno())
        present = None if file is None else file.read(len(change.before or b"") + 1)
        if present != change.before:
            rest = b"" if file is None else file.read(LARGEST)
            raise stale(shown, _SINCE, hide, change.before, None if present is None else present + rest)
    return found


@contextlib.contextmanager
def _explained(path: str) -> Generator[None]:
    """Let errors name the file instead of the temporary one, and say that nothing was written."""
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
    sync: Sync = sync_directory,
) -> int:
    """Replace the file's content, durably. Returns its permission bits afterwards.

    Args:
        seen: its state when it was compared; None for no file. It may be a symbolic link, which the file replaces.
        mode: the permission bits to set; None keeps the present ones, or those of a new file.
        first: the bits of a new file before the umask; None for the usual ones.
        hold: as in `land`.
        sync: makes the new name durable, at once or later.

    Raises:
        OSError: ESTALE if its state has changed since.
    """
    is_link = seen is not None and stat.S_ISLNK(seen.st_mode)
    if is_link:
        place.check_folder()
    else:
        place.check_writable()
    with recorded(workspace.records, place.folder) as temporary:
        try:
            usual = _USUAL_MODE if first is None else first
            given = _fill(place, temporary, data, None if is_link else seen, mode, usual)
            if hold is not None:
                hold(os.path.join(place.folder, temporary))
            # Checked again, because the sync takes time, and people save files meanwhile.
            if not _is_still(place, seen):
                raise changed_since(workspace.shown(place.path), _SINCE)
            _rename(place, temporary, replacing=seen is not None)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=place.directory)
            raise
        sync(place.directory)
    return given


def remove(place: Place, seen: os.stat_result | None, workspace: Workspace, *, sync: Sync = sync_directory) -> None:
    """Remove the file, durably. Arguments and errors as in `replace_file`."""
    place.check_writable()
    if not _is_still(place, seen):
        raise changed_since(workspace.shown(place.path), _SINCE)
    os.unlink(place.name, dir_fd=place.directory)
    sync(place.directory)


def _fill(
    place: Place, temporary: str, data: bytes, replaced: os.stat_result | None, mode: int | None, usual: int
) -> int:
    # Private until it has its final rights.
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
        sync(descriptor)
        return stat.S_IMODE(os.fstat(descriptor).st_mode)


def _take_over(place: Place, descriptor: int, replaced: os.stat_result) -> None:
    """Give the new file the owner, mode and attributes of the old one, as far as this process may.

    As after a write by the kernel, it gives nobody its owner's rights any more: its content is a statement's.
    """
    mode = stat.S_IMODE(replaced.st_mode) & ~(stat.S_ISUID | stat.S_ISGID)
    try:
        os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
    except PermissionError:
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, -1, replaced.st_gid)
    # Suppressed because not every file system has modes or attributes.
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, mode)
    with contextlib.suppress(OSError), place.opened() as old:
        if old is not None:
            for name in attributes.names_of(old.fileno()):
                if name.startswith(_KEPT_ATTRIBUTES):
                    attributes.copy(name, old.fileno(), descriptor)


def _is_still(place: Place, seen: os.stat_result | None) -> bool:
    try:
        now = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return seen is None
    return seen is not None and identity_of(now) == identity_of(seen)


def identity_of(found: os.stat_result) -> tuple[int, ...]:
    """A value that changes with the file's content, permissions or owner, but not with another hard link."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid, found.st_gid


def _rename(place: Place, temporary: str, *, replacing: bool) -> None:
    if replacing or not _renamed_to_nothing(place, temporary):
        os.rename(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)


def _renamed_to_nothing(place: Place, temporary: str) -> bool:
    """Rename unless the target now exists; return False if the file system does not support that."""
    try:
        return names.rename_to_nothing(place.directory, temporary, place.name)
    except FileExistsError:
        raise changed_since(place.path, _SINCE) from None
