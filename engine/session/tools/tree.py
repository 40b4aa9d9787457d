"""Acts on the file tree, a function for each row of `toolbox.ROUTED`.

Each act checks its names before the user is asked, and again before it is performed. Owns where the names are (in the
workspace, through pinned directories). Must not know who asks, or what is recorded. Performed by `session.tool_calls`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from ...files.pins import PIN, set_mode, set_times
from ...files.safe_open import Place, opened_directory, sync_directory
from .landing import identity_of, replace_file
from .read import changed_since
from .workspace import Workspace

SINCE: Final = "the change was requested"
Hold = Callable[[str], None]
"""As in `landing.land`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAct:
    """An act on names in the file tree, before it is performed.

    Args:
        paths: the absolute, real paths of the changed names.
        do: performs it, durably; blocks. Raises OSError, ESTALE if a name now belongs to another file.
        put: the same, but gives a protected last name a copy of the allowed content. Without the copy, a process that
            has the file open, or has another name for it, could still change that content.
        becomes: for each file whose content moves or is removed: its path, and the path whose content it gets (None if
            it is removed).
        source: the absolute, real path of what gets the last name; "" if that is new.
        detail: more about the act for the question.
        is_minor: it needs no question for a file that the same statement has written.
        respells: it changes only the case or the Unicode form of a name, on a file system that finds both.
        makes: it creates a directory, which needs no question in a directory that the same statement has created.
        protected: why one of the names is protected, as `Protection.why`.
    """

    paths: tuple[str, ...]
    do: Callable[[], None]
    put: Callable[[bytes, Hold], None] | None = None
    becomes: tuple[tuple[str, str | None], ...] = ()
    source: str = ""
    detail: str = ""
    is_minor: bool = False
    makes: bool = False
    respells: bool = False
    protected: str


@dataclass(frozen=True, slots=True)
class Name:
    """A name when it was checked: its path with links above it resolved, why it is protected, and its file's state."""

    path: str
    protected: str
    state: os.stat_result | None

    @property
    def is_file(self) -> bool:
        return self.state is not None and stat.S_ISREG(self.state.st_mode)

    @property
    def is_directory(self) -> bool:
        return self.state is not None and stat.S_ISDIR(self.state.st_mode)

    @property
    def identity(self) -> tuple[int, ...]:
        """A value that differs for another file and for a changed one; a directory's contents do not change it."""
        assert self.state is not None
        if self.is_directory:
            return self.state.st_dev, self.state.st_ino
        return *identity_of(self.state), self.state.st_ctime_ns


def protected_of(*names: Name) -> str:
    """Why one of the names is protected; empty for none."""
    return next(filter(None, (name.protected for name in names)), "")


def carried_protected(workspace: Workspace, name: Name, becomes: Iterable[tuple[str, str | None]]) -> str:
    """Why something inside a directory is protected: by the names of its files, or by its contents; empty for none."""
    below = workspace.protection.holds_below(name.path) if name.is_directory else ""
    return below or next(filter(None, (workspace.protection.why_by_name(path) for path, _ in becomes)), "")


def name_at(
    workspace: Workspace, path: str, *, follows: bool = False, changes: bool = True, as_spelled: bool = False
) -> Name:
    """The name at the path, which need not exist.

    Args:
        follows: resolve a link of that name.
        changes: the act creates, removes or replaces the name.
        as_spelled: as in `place_to_write`.

    Raises:
        OSError: it is outside the workspace, or its directory is missing or not writable.
        ValueError: the path contains a NUL character.
    """
    with workspace.to_write(workspace.absolute(path), follows=follows, as_spelled=as_spelled) as target:
        place = target.place
        if place.missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if changes:
            place.check_folder()
        return Name(place.path, target.protected, _state(place))


def free(workspace: Workspace, path: str) -> Name:
    """The same for a name that must not exist yet; FileExistsError if it does."""
    name = name_at(workspace, path)
    if name.state is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    return name


def there(workspace: Workspace, path: str, *, follows: bool = False, changes: bool = True) -> Name:
    """The same for a name that must exist; FileNotFoundError if it does not."""
    name = name_at(workspace, path, follows=follows, changes=changes)
    if name.state is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return name


@contextlib.contextmanager
def again(workspace: Workspace, name: Name, *, as_spelled: bool = False) -> Generator[Place]:
    """The name's place, checked again, for the act; the directory is synced afterwards.

    Raises OSError (ESTALE) if it has changed or become protected.
    """
    with workspace.to_write(name.path, follows=False, as_spelled=as_spelled) as target:
        place, state = target.place, _state(target.place)
        now = Name(place.path, target.protected, state)
        is_moved = place.path != name.path or place.missing or (state is None) != (name.state is None)
        if is_moved or (now.protected and not name.protected):
            raise changed_since(f"the place of {workspace.shown(name.path)}", SINCE)
        if state is not None and now.identity != name.identity:
            raise changed_since(workspace.shown(name.path), SINCE)
        yield place
        sync_directory(place.directory)


def _state(place: Place) -> os.stat_result | None:
    if place.missing:
        return None
    try:
        return os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def pinned(place: Place) -> Generator[int]:
    """A pin of the file that has the name now, even if the name moves to another file."""
    pin = os.open(place.name, PIN | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.directory)
    try:
        yield pin
    finally:
        os.close(pin)


# --- chmod ------------------------------------------------------------------------------------------------------------

_PERMISSIONS: Final = 0o777
_MINOR: Final = 0o755
"""Modes within this mask let only the owner write, so they are harmless."""


class ChmodArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.chmod`: `mode` are permission bits; links are followed."""

    path: str
    mode: int


def chmod(workspace: Workspace, arguments: ChmodArguments) -> TreeAct:
    """The act that changes the mode. Raises as `name_at`, and PermissionError for set-user-ID and similar bits."""
    if arguments.mode & ~_PERMISSIONS:
        raise PermissionError(
            errno.EPERM, "only the permission bits of user, group and others can be set here", arguments.path
        )
    name = there(workspace, arguments.path, follows=True, changes=False)
    is_minor = not arguments.mode & ~_MINOR
    assert name.state is not None
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(name),
        do=lambda: _change(workspace, name, arguments.mode),
        detail=f"{_spelled(name.state.st_mode)} -> {_spelled(arguments.mode)}",
        is_minor=is_minor,
    )


def _spelled(mode: int) -> str:
    return f"{stat.filemode(mode)[1:]} ({stat.S_IMODE(mode):o})"


def _change(workspace: Workspace, name: Name, mode: int) -> None:
    with again(workspace, name) as place, pinned(place) as pin:
        set_mode(pin, mode)


# --- link -------------------------------------------------------------------------------------------------------------


class LinkArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.link`: `path` becomes another name of the file `source`; links are not followed."""

    path: str
    source: str


def link(workspace: Workspace, arguments: LinkArguments) -> TreeAct:
    """The act that creates the link. Raises as `free`, and FileNotFoundError without a source."""
    source, name = there(workspace, arguments.source, changes=False), free(workspace, arguments.path)
    becomes = ((name.path, source.path),) if source.is_file else ()
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(source, name),
        do=lambda: _link(workspace, source, name),
        put=partial(_put, workspace, source, name) if name.protected and source.is_file else None,
        becomes=becomes,
        source=source.path,
    )


def _put(workspace: Workspace, source: Name, name: Name, data: bytes, hold: Hold) -> None:
    assert source.state is not None
    with again(workspace, source), again(workspace, name) as new:
        replace_file(new, data, None, workspace, stat.S_IMODE(source.state.st_mode), hold=hold)


def _link(workspace: Workspace, source: Name, name: Name) -> None:
    with again(workspace, source) as old, again(workspace, name) as new:
        os.link(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory, follow_symlinks=False)


# --- mkdir, mkfifo ----------------------------------------------------------------------------------------------------


class MkdirArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.mkdir`: `mode` are permission bits before the umask."""

    path: str
    mode: int


def mkdir(workspace: Workspace, arguments: MkdirArguments) -> TreeAct:
    """The act that creates the directory. Raises as `free`."""
    name = free(workspace, arguments.path)
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(name),
        do=lambda: _mkdir(workspace, name, arguments.mode & 0o777),
        makes=True,
    )


def _mkdir(workspace: Workspace, name: Name, mode: int) -> None:
    with again(workspace, name) as place:
        os.mkdir(place.name, mode, dir_fd=place.directory)


class MkfifoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.mkfifo`: `mode` are permission bits before the umask."""

    path: str
    mode: int


def mkfifo(workspace: Workspace, arguments: MkfifoArguments) -> TreeAct:
    """The act that creates the named pipe. Raises as `free`."""
    name = free(workspace, arguments.path)
    return TreeAct(
        paths=(name.path,), protected=protected_of(name), do=lambda: _mkfifo(workspace, name, arguments.mode & 0o777)
    )


def _mkfifo(workspace: Workspace, name: Name, mode: int) -> None:
    with again(workspace, name) as place:
        os.mkfifo(place.name, mode, dir_fd=place.directory)


# --- remove -----------------------------------------------------------------------------------------------------------


class RemoveArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.remove` of a file, a link or a pipe; a link is not followed."""

    path: str


def remove(workspace: Workspace, arguments: RemoveArguments) -> TreeAct:
    """The act that removes it. Raises as `name_at`, and IsADirectoryError."""
    name = there(workspace, arguments.path)
    if name.is_directory:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), arguments.path)
    becomes = ((name.path, None),) if name.is_file else ()
    return TreeAct(
        paths=(name.path,), protected=protected_of(name), do=lambda: _remove(workspace, name), becomes=becomes
    )


def _remove(workspace: Workspace, name: Name) -> None:
    with again(workspace, name) as place:
        os.unlink(place.name, dir_fd=place.directory)


# --- rename -----------------------------------------------------------------------------------------------------------

_IN_PARTS: Final = "the files in this directory must be written one by one, because {}"
MOST_FILES: Final = 5_000
"""The largest directory that can be renamed, in files, or removed with its contents, in names."""


class RenameArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.rename` and `os.replace`: `source` gets the name `path`, and replaces its file; links are not followed."""

    path: str
    source: str


def rename(workspace: Workspace, arguments: RenameArguments) -> TreeAct:
    """The act that renames it.

    Raises as `name_at`, FileNotFoundError without a source, IsADirectoryError or NotADirectoryError if only one is a
    directory, and OSError (EFBIG) for a directory with more than `MOST_FILES` files.
    """
    source, target = there(workspace, arguments.source), name_at(workspace, arguments.path)
    respells = target.path == source.path
    if respells:
        target = name_at(workspace, arguments.path, as_spelled=True)
    if target.protected and source.is_directory:
        raise OSError(errno.EXDEV, _IN_PARTS.format(target.protected), arguments.path)
    if target.state is not None and source.is_directory != target.is_directory:
        kind, number = (NotADirectoryError, errno.ENOTDIR) if source.is_directory else (IsADirectoryError, errno.EISDIR)
        raise kind(number, os.strerror(number), arguments.path)
    becomes = tuple(_becomes(source, target))
    return TreeAct(
        paths=(source.path, target.path),
        protected=protected_of(source, target) or carried_protected(workspace, source, becomes),
        do=lambda: _rename(workspace, source, target, respells=respells),
        put=partial(_put_renamed, workspace, source, target) if target.protected and source.is_file else None,
        becomes=becomes,
        source=source.path,
        respells=respells and target.path != source.path,
    )


def _becomes(source: Name, target: Name) -> Iterator[tuple[str, str | None]]:
    if source.is_file:
        yield source.path, None
        yield target.path, source.path
    elif target.is_file:
        yield target.path, None
    if source.is_directory:
        for count, path in enumerate(_files_below(source.path)):
            if count == MOST_FILES:
                sentence = f"the directory has more than {MOST_FILES:,} files, too many to record; bash() can rename it"
                raise OSError(errno.EFBIG, sentence, source.path)
            yield path, None
            yield target.path + path.removeprefix(source.path), path


def _files_below(path: str) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        for name in names:
            found = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(found).st_mode):
                yield found


def _put_renamed(workspace: Workspace, source: Name, target: Name, data: bytes, hold: Hold) -> None:
    assert source.state is not None
    with again(workspace, source) as old, again(workspace, target) as new:
        replace_file(new, data, target.state, workspace, stat.S_IMODE(source.state.st_mode), hold=hold)
        os.unlink(old.name, dir_fd=old.directory)


def _rename(workspace: Workspace, source: Name, target: Name, *, respells: bool) -> None:
    with again(workspace, source) as old, again(workspace, target, as_spelled=respells) as new:
        os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)


# --- rmdir, rmtree ----------------------------------------------------------------------------------------------------


class RmdirArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.rmdir` of an empty directory."""

    path: str


def rmdir(workspace: Workspace, arguments: RmdirArguments) -> TreeAct:
    """The act that removes it. Raises as `name_at`, and OSError if it is not an empty directory."""
    name = there(workspace, arguments.path)
    if not name.is_directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), arguments.path)
    with opened_directory(name.path, workspace.roots) as directory:
        if os.listdir(directory):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), arguments.path)
    return TreeAct(paths=(name.path,), protected=protected_of(name), do=lambda: _rmdir(workspace, name))


def _rmdir(workspace: Workspace, name: Name) -> None:
    with again(workspace, name) as place:
        os.rmdir(place.name, dir_fd=place.directory)


class RmtreeArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`shutil.rmtree` of a directory, as one act; a link is not followed."""

    path: str


def rmtree(workspace: Workspace, arguments: RmtreeArguments) -> TreeAct:
    """The act that removes it.

    Raises as `name_at`, NotADirectoryError, PermissionError if something in it may not be removed, and OSError (EFBIG)
    if it contains more than `MOST_FILES` names.
    """
    name = there(workspace, arguments.path)
    if not name.is_directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), arguments.path)
    found = dict(_entries(name.path, None))
    becomes = tuple(
        (os.path.join(name.path, path), None) for path, state in found.items() if stat.S_ISREG(state.st_mode)
    )
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(name) or carried_protected(workspace, name, becomes),
        do=lambda: _rmtree(workspace, name, found),
        becomes=becomes,
    )


def _entries(top: str, directory: int | None) -> Iterator[tuple[str, os.stat_result]]:
    """The paths below `top`, relative to it, and their states; links are not followed.

    `top` may be relative to the descriptor `directory`. Raises OSError, before anything is removed, if the whole
    directory cannot be removed.
    """
    count = 0
    for folder, folders, files, descriptor in os.fwalk(top, onerror=_raise, dir_fd=directory):
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
        for each in (*folders, *files):
            count += 1
            if count > MOST_FILES:
                sentence = (
                    f"the directory contains more than {MOST_FILES:,} names, too many to record; bash() can remove it"
                )
                raise OSError(errno.EFBIG, sentence, top)
            yield os.path.relpath(os.path.join(folder, each), top), os.lstat(each, dir_fd=descriptor)


def _rmtree(workspace: Workspace, name: Name, found: dict[str, os.stat_result]) -> None:
    with again(workspace, name) as place:
        now = dict(_entries(place.name, place.directory))
        if _identities(now) != _identities(found):
            raise changed_since(workspace.shown(name.path), SINCE)
        shutil.rmtree(place.name, dir_fd=place.directory)


def _identities(found: dict[str, os.stat_result]) -> dict[str, tuple[int, ...]]:
    return {path: Name(path, "", state).identity for path, state in found.items()}


def _raise(error: OSError) -> None:
    raise error


# --- symlink ----------------------------------------------------------------------------------------------------------


class SymlinkArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.symlink`: `path` becomes a link to `target`, which may be anywhere: opening a path checks where it leads."""

    path: str
    target: str


def symlink(workspace: Workspace, arguments: SymlinkArguments) -> TreeAct:
    """The act that creates the link. Raises as `free`."""
    name = free(workspace, arguments.path)
    return TreeAct(
        paths=(name.path,), protected=protected_of(name), do=lambda: _symlink(workspace, name, arguments.target)
    )


def _symlink(workspace: Workspace, name: Name, target: str) -> None:
    with again(workspace, name) as place:
        os.symlink(target, place.name, dir_fd=place.directory)


# --- utime ------------------------------------------------------------------------------------------------------------

_SECOND: Final = 10**9
_MOST: Final = 2**63
"""64 bits represent the years 1677 to 2262."""


class UtimeArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`os.utime`: `times` of access and of change, in nanoseconds since the epoch; None for now."""

    path: str
    times: tuple[int, int] | None
    follows: bool = True


def utime(workspace: Workspace, arguments: UtimeArguments) -> TreeAct:
    """The act that sets the times. Raises as `name_at`, and OSError (EOVERFLOW) for times beyond 64 bits."""
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
    # The new times do not depend on the old ones, so the comparison in `again` suffices.
    how: dict[str, Any] = {} if times is None else {"ns": times}
    with again(workspace, name) as place:
        if name.is_file or name.is_directory:
            with pinned(place) as pin:
                set_times(pin, times)
        else:
            os.utime(place.name, **how, dir_fd=place.directory, follow_symlinks=False)
