"""The files, links and directories of one directory that are compared, with their states.

These are the ones that git would add: what `.gitignore` and `info/exclude` name is left out, and so is what a directory
has of version control (`.git`), of this program, and of another file system. A directory that has only such entries is
left out, too.

Directories are opened one below the other without following links, so that no program that exchanges one for a link
during the walk leads it elsewhere. Nothing else is opened. Blocks.
"""

from __future__ import annotations

import os
import stat
from typing import Final, NamedTuple

from ...files.safe_open import is_own
from ...files.search.ignore_files import REPOSITORY, VERSION_CONTROL, IgnoreFiles, Place, Stamp, rules_above

MOST_ENTRIES: Final = 200_000
"""Entries of one directory that are compared; a larger one is not."""
CACHES: Final = ("__pycache__", "node_modules")
"""Directories that programs fill again, left out whether or not a rule says so."""
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RULES: Final = frozenset((".gitignore", REPOSITORY))


class TooLargeError(Exception):
    """The directory has more than MOST_ENTRIES entries."""


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


class Listing(NamedTuple):
    """The entries by their paths below the directory, and the states of all files with rules.

    If `rules` are as at an earlier time, then an entry that is new was not there at that time.
    """

    entries: dict[str, State]
    rules: tuple[tuple[str, Stamp], ...]


def list_tree(place: Place) -> Listing:
    """Return what is compared in the directory of a place.

    Raises:
        OSError: the directory cannot be read.
        TooLargeError: it has too much.
    """
    return _Walk(place).listing()


class _Walk:
    def __init__(self, place: Place) -> None:
        self._root = place.directory
        self._above = rules_above(place, git_only=True)
        self._entries: dict[str, State] = {}
        self._rules: list[tuple[str, Stamp]] = list(self._above.files)
        self._device = 0

    def listing(self) -> Listing:
        descriptor = os.open(self._root, _FLAGS)
        try:
            self._device = os.fstat(descriptor).st_dev
            self._directory(descriptor, "", self._above)
        finally:
            os.close(descriptor)
        return Listing(self._entries, tuple(self._rules))

    def _directory(self, descriptor: int, prefix: str, above: IgnoreFiles) -> bool:
        """Add what is in a directory. Return whether it is compared: it has an entry that is, or none at all."""
        with os.scandir(descriptor) as found:
            children = list(found)
        rules = above
        if not prefix or not _RULES.isdisjoint([child.name for child in children]):
            rules = above.within(os.path.join(self._root, prefix), prefix=prefix)
            self._rules.extend(rules.files[len(above.files) :])
        is_kept = not children
        for child in children:
            try:
                found_state = child.stat(follow_symlinks=False)
            except OSError:
                continue  # it is gone
            name, path = child.name, prefix + child.name
            state = State(
                found_state.st_mode,
                found_state.st_ino,
                found_state.st_size,
                found_state.st_mtime_ns,
                found_state.st_ctime_ns,
            )
            if state.is_directory:
                if not self._is_left_out(name, f"{path}/", found_state.st_dev, rules):
                    is_kept = self._below(descriptor, name, f"{path}/", state, rules) or is_kept
            elif self._is_file(name, path, state, rules):
                is_kept = True
                self._add(path, state)
        return is_kept

    def _is_file(self, name: str, path: str, state: State, rules: IgnoreFiles) -> bool:
        is_kind = stat.S_ISREG(state.mode) or state.is_link
        return is_kind and name != REPOSITORY and not rules.leave_out(path, name)

    def _is_left_out(self, name: str, path: str, device: int, rules: IgnoreFiles) -> bool:
        if name in VERSION_CONTROL or name in CACHES or device != self._device:
            return True
        return rules.leave_out(path, f"{name}/") or is_own(os.path.join(self._root, path[:-1]), self._root)

    def _below(self, descriptor: int, name: str, path: str, state: State, rules: IgnoreFiles) -> bool:
        try:
            child = os.open(name, _FLAGS, dir_fd=descriptor)
        except OSError:
            return False  # it is gone, is a link now, or may not be read
        try:
            # First, so that a directory stands before what is in it; without what changes with each entry.
            self._add(path, State(state.mode, state.inode, 0, 0, 0))
            is_kept = self._directory(child, path, rules)
        except RecursionError:
            raise TooLargeError from None
        finally:
            os.close(child)
        if not is_kept:
            del self._entries[path]
        return is_kept

    def _add(self, path: str, state: State) -> None:
        if len(self._entries) >= MOST_ENTRIES:
            raise TooLargeError
        self._entries[path] = state
