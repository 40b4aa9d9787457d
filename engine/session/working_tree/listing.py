"""The files, links and directories of one directory that are compared, with their states.

These are the ones that git would add: what `.gitignore` and `info/exclude` name is left out, and so is what a directory
has of version control (`.git`), of this program (such as a file that is being written), and of another file system. A
directory that has only such entries is left out, too.

Directories are opened one below the other without following links, so that no program that exchanges one for a link
during the walk leads it elsewhere. Nothing else is opened. Blocks.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ...files.safe_open import is_own
from ...files.search.ignore_files import REPOSITORY, VERSION_CONTROL, IgnoreFiles, Place, Stamp, rules_above
from ...files.temporary_files import is_temporary

MOST_ENTRIES: Final = 200_000
"""Entries of one directory that are compared; a larger one is not."""
MOST_LEVELS: Final = 100
"""Directories in each other; each is open meanwhile."""
CACHES: Final = ("__pycache__", "node_modules")
"""Directories that programs fill again, left out whether or not a rule says so."""
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OUR_OWN: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_RULES: Final = frozenset((".gitignore", REPOSITORY))
_RACY_NS: Final = 50_000_000
"""What is younger may change again without another time, because kernels stamp in ticks of up to 10 ms."""


MOST_SECONDS: Final = 10.0
"""Of processor time for listing a directory. Rules that a statement wrote may take long to match."""


class TooLargeError(Exception):
    """The directory has more than MOST_ENTRIES entries, or more than MOST_LEVELS levels."""


class TooSlowError(Exception):
    """Listing the directory takes more than MOST_SECONDS."""


class StoppedError(Exception):
    """Nobody waits for the comparison any more."""


class State(NamedTuple):
    """What tells whether an entry has changed: `mode` with the file type, and times in nanoseconds."""

    mode: int
    inode: int
    size: int
    modified: int
    changed: int

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


class Lister:
    """Lists the directory of a place again and again. It remembers what directories have, until they change."""

    def __init__(self) -> None:
        self._known: dict[str, _Directory] = {}

    def list_tree(self, place: Place, is_stopped: Callable[[], bool] = lambda: False) -> dict[str, State]:
        """Return what is compared now, by its paths below the directory; those of directories end in a slash.

        Raises:
            OSError: the directory cannot be read.
            TooLargeError, TooSlowError.
            StoppedError: `is_stopped`.
        """
        walk = _Walk(place, self._known, is_stopped)
        entries = walk.entries()
        self._known = walk.seen
        return entries


class _Directory(NamedTuple):
    """What a directory had when it was read, by its rules: names of files and links, and of directories.

    `stamp` is its own; None if it was too young to tell a later change.
    """

    stamp: tuple[int, int, int] | None
    rules: Sequence[tuple[str, Stamp]]
    has_rules: bool
    is_empty: bool
    files: tuple[str, ...]
    directories: tuple[str, ...]


class _Walk:
    def __init__(self, place: Place, known: Mapping[str, _Directory], is_stopped: Callable[[], bool]) -> None:
        self._root = place.directory
        self._above = rules_above(place, git_only=True)
        self._known = known
        self.seen: dict[str, _Directory] = {}
        self._entries: dict[str, State] = {}
        self._now = time.time_ns()
        self._is_stopped = is_stopped
        self._latest = time.thread_time() + MOST_SECONDS
        self._device = 0

    def entries(self) -> dict[str, State]:
        descriptor = os.open(self._root, _FLAGS)
        try:
            self._device = os.fstat(descriptor).st_dev
            self._directory(descriptor, "", self._above)
        finally:
            os.close(descriptor)
        return self._entries

    def _directory(self, descriptor: int, prefix: str, above: IgnoreFiles) -> bool:
        """Add what is in a directory. Return whether it is compared: it has an entry that is, or none at all."""
        own = os.fstat(descriptor)
        stamp = own.st_ino, own.st_mtime_ns, own.st_ctime_ns
        known = self._known.get(prefix)
        is_same = known is not None and known.stamp == stamp
        names = None if is_same else os.listdir(descriptor)
        has_rules = known.has_rules if names is None and known else not _RULES.isdisjoint(names or ())
        rules = above
        if not prefix or has_rules:
            rules = above.within(os.path.join(self._root, prefix), prefix=prefix)
        if names is None and known is not None and known.rules == rules.files:
            found = known
        else:
            names = os.listdir(descriptor) if names is None else names
            files, directories = self._kept(descriptor, prefix, names, rules)
            is_settled = self._now - max(own.st_mtime_ns, own.st_ctime_ns) > _RACY_NS
            found = _Directory(stamp if is_settled else None, rules.files, has_rules, not names, files, directories)
        self.seen[prefix] = found
        is_kept = found.is_empty
        for name in found.files:
            if (state := _state(name, descriptor)) is not None and not state.is_directory:
                is_kept = True
                self._add(prefix + name, state)
        for name in found.directories:
            is_kept = self._below(descriptor, name, f"{prefix}{name}/", rules) or is_kept
        return is_kept

    def _kept(
        self, descriptor: int, prefix: str, names: Sequence[str], rules: IgnoreFiles
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the files and links, and of the directories, that are compared."""
        files: list[str] = []
        directories: list[str] = []
        for name in names:
            self._check_time()
            state = _state(name, descriptor)
            if state is None:
                continue  # it is gone
            path = prefix + name
            if state.is_directory:
                if not self._is_left_out(name, f"{path}/", rules):
                    directories.append(name)
            elif (stat.S_ISREG(state.mode) or state.is_link) and name != REPOSITORY and not is_temporary(name):
                files += [] if rules.leave_out(path, name) else [name]
        return tuple(files), tuple(directories)

    def _check_time(self) -> None:
        if self._is_stopped():
            raise StoppedError
        if time.thread_time() > self._latest:
            raise TooSlowError

    def _is_left_out(self, name: str, path: str, rules: IgnoreFiles) -> bool:
        if name in VERSION_CONTROL or name in CACHES or rules.leave_out(path, f"{name}/"):
            return True
        return is_own(os.path.join(self._root, path[:-1]), self._root)

    def _below(self, descriptor: int, name: str, path: str, rules: IgnoreFiles) -> bool:
        if path.count("/") > MOST_LEVELS:
            raise TooLargeError
        try:
            child = os.open(name, _FLAGS, dir_fd=descriptor)
        except OSError as error:
            if error.errno in _OUR_OWN:
                raise
            return error.errno == errno.EACCES and self._add_closed(descriptor, name, path)
        try:
            state = os.fstat(child)
            if state.st_dev != self._device:
                return False
            # First, so that a directory stands before what is in it; without what changes with each entry.
            self._add(path, State(state.st_mode, state.st_ino, 0, 0, 0))
            is_kept = self._directory(child, path, rules)
        finally:
            os.close(child)
        if not is_kept:
            del self._entries[path]
        return is_kept

    def _add_closed(self, descriptor: int, name: str, path: str) -> bool:
        """Add a directory that may not be read; return whether it still is one."""
        state = _state(name, descriptor)
        if state is None or not state.is_directory:
            return False
        self._add(path, State(state.mode, state.inode, 0, 0, 0))
        return True

    def _add(self, path: str, state: State) -> None:
        if len(self._entries) >= MOST_ENTRIES:
            raise TooLargeError
        self._entries[path] = state


def _state(name: str, directory: int) -> State | None:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return State(found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
