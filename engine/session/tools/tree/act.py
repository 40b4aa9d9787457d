"""An act on names in the file tree: looked at before anybody is asked, and looked at once more before it is done.

Owns where the names are (in the workspace, by pinned directories) and that they are as they were. Must not know who
asks or what is recorded. Made by the modules beside it, done by `session.acts`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Final

from ....files.safe_open import Place, sync_directory
from ..landing import identity_of
from ..stale import stale
from ..workspace import Workspace

SINCE: Final = "the change was asked for"
Hold = Callable[[str], None]
"""As the argument of `landing.land`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAct:
    """What is to be done.

    Args:
        paths: absolute and real, of the names that are changed.
        do: does it, durably; blocks. Raises OSError, ESTALE where a name is another file's by now.
        put: likewise, but with a copy of that content for the last name, where that is protected: whoever has the file
            open, or another name for it, would go on writing what was allowed.
        becomes: of the files whose content comes to be elsewhere or goes: the path of each, and the path whose content
            it is to have; None where it will be gone.
        source: absolute and real, of what comes to have the last of these names; "" where that is new.
        detail: what the names do not say of it, for whoever is asked.
        is_minor: it goes with a file that the same statement has written.
        makes: it makes a directory, which is minor in one that the same statement has made.
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
    protected: str


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it was looked at: its real place, links above it resolved, why that is protected, and the state of what
    has it, if any."""

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
        """What tells whether it is the same; of a directory, whatever is in it."""
        assert self.state is not None
        if self.is_directory:
            return self.state.st_dev, self.state.st_ino
        return *identity_of(self.state), self.state.st_ctime_ns


def protected_of(*names: Name) -> str:
    """Why one of the names is protected; empty for none."""
    return next(filter(None, (name.protected for name in names)), "")


def carried_protected(workspace: Workspace, name: Name, becomes: Iterable[tuple[str, str | None]]) -> str:
    """The same of what an act on a directory carries along: by the names of its files, and by what was found in it."""
    below = workspace.protection.holds_below(name.path) if name.is_directory else ""
    return below or next(filter(None, (workspace.protection.why_by_name(path) for path, _ in becomes)), "")


def name_at(workspace: Workspace, path: str, *, follows: bool = False, changes: bool = True) -> Name:
    """The name at the path, which need not be there.

    Args:
        follows: a link of that name stands for what it leads to.
        changes: it is to be made, removed or given to something else.

    Raises:
        OSError: it lies outside the workspace, its directory is missing or may not be written.
        ValueError: the path holds a NUL character.
    """
    with workspace.to_write(workspace.absolute(path), follows=follows) as target:
        place = target.place
        if place.missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if changes:
            place.check_folder()
        return Name(place.path, target.protected, _state(place))


def free(workspace: Workspace, path: str) -> Name:
    """The same for a name that must not be there yet; else FileExistsError."""
    name = name_at(workspace, path)
    if name.state is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    return name


def there(workspace: Workspace, path: str, *, follows: bool = False, changes: bool = True) -> Name:
    """The same for a name that has to be there."""
    name = name_at(workspace, path, follows=follows, changes=changes)
    if name.state is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return name


@contextlib.contextmanager
def again(workspace: Workspace, name: Name) -> Generator[Place]:
    """The place of the name, for the act on it; what was done to its directory is durable afterwards.

    Raises OSError (ESTALE) where it is not as it was looked at, or has become protected.
    """
    with workspace.to_write(name.path, follows=False) as target:
        place, state = target.place, _state(target.place)
        now = Name(place.path, target.protected, state)
        is_moved = place.path != name.path or place.missing or (state is None) != (name.state is None)
        if is_moved or (now.protected and not name.protected):
            raise stale(f"the place of {workspace.shown(name.path)}", SINCE, None, b"")
        if state is not None and now.identity != name.identity:
            raise stale(workspace.shown(name.path), SINCE, None, b"")
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
def pinned(place: Place) -> Generator[str]:
    """A path that leads to what has the name now, also when the name is something else's a moment later."""
    pin = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.directory)
    try:
        yield f"/proc/self/fd/{pin}"
    finally:
        os.close(pin)
