"""Protected files: those that other programs run by themselves, such as git's hooks, shell profiles and editor tasks.

A statement that writes one gets its own code run by another program, outside the sandbox. So one table
(`protected_names`) lists these files for both that enforce the protection: the sandbox mounts them read-only for
statements (`Protection.places`), and the host asks before it writes one for a statement (`Protection.why`). Both use
real paths, links resolved. Names are compared without case, because some file systems do. Reads directories and git's
configuration, which takes milliseconds. Must not know how the user is asked. Used by `session.tools.workspace` and
`session.confinement`, and by workers for their own writes.

A repository is recognized by its name (`.git`) or its content (a bare one, or one that a `.git` file leads to). A write
that would turn a directory into a repository is protected, too. So is what git's configuration names now (hooks,
included files, programs). No list is complete: see docs/sandbox.md.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice, zip_longest
from pathlib import PurePath
from typing import Final, NamedTuple

from ..core import libpq_files
from ..core.domain import is_inside
from .git_configuration import (
    COMMON_DIR,
    CONFIGURATIONS,
    REPOSITORY_VARIABLES,
    WORK_TREES,
    Looks,
    configured,
    named_by,
    of_user,
    work_trees_in,
)
from .installation import Installation
from .pins import path_of
from .protected_names import (
    ABOVE_ROWS,
    BY_NAME,
    BY_VARIABLE,
    CONFIGURATION,
    DATABASES,
    GIT,
    GIT_DATA,
    GIT_RUNS,
    GIT_TOP_RUNS,
    HEAD,
    OBJECTS,
    OWN,
    REFS,
    ROWS,
    TWO_PARTS,
    WORKSPACE_SUFFIX,
    fold,
    stem_of,
    why_by_name,
    why_in_git,
)
from .safe_open import links_to, opened_directory, real_path

_OF_REPOSITORIES: Final = ("HEAD", "objects", "refs", COMMON_DIR)
_FOLDED: Final = frozenset(map(fold, _OF_REPOSITORIES))
_KERNEL_HELD: Final = (*CONFIGURATIONS, "hooks", COMMON_DIR)
"""Names in a repository that can always be read-only: plain `git add` and `git commit` do not change them."""
_KERNEL_HELD_IF_THERE: Final = ("gitdir", *GIT_TOP_RUNS, "rebase-merge", "rebase-apply", "sequencer")
_NEW_REPOSITORY: Final = "this file makes the directory a repository, and git uses its configuration and hooks"
_NAMED: Final = "git runs this file or reads it as configuration, because the repository's configuration names it"

_MADE: Final = ("rewindow", "python_keyring")
"""What this program itself reads in the directory of settings."""
_BYTECODE: Final = "__pycache__"
_RUNS_FROM: Final = "Rewindow itself runs from this path, outside the sandbox"
_ELSEWHERE: Final = Installation()
_WAS_FOUND: Final = "at the last check, other programs ran this file or read it as configuration"
_ABOVE: Final = "this directory may contain files that other programs run"
_LED_TO: Final = "other programs reach this file through a link and run it"

_MOST: Final = 200
"""Number of repositories whose places are returned, because each mount takes time. If there are more, or more of what
is bounded below, not all that is protected is known (`too_long`): a statement can make many that come first."""
_MOST_WORK_TREES: Final = 50
"""Number of linked work trees of one repository. With more of these, their directory is returned as a whole."""
_MOST_ROWS: Final = 500
"""Number of files and directories of the table that are returned, for the same reason."""
_MOST_NAMED: Final = 100
"""Number of files that the configuration of one repository names and that are returned, for the same reason."""
_MOST_MISSING: Final = 1_000
"""Number of further paths that it names, where nothing is yet. Most are words of a command that look like a path."""
_MOST_CLOSED: Final = 100
"""Number of directories that may not be listed and are returned, for the same reason."""
_LOOKED_AT: Final = 1_000
"""Number of directories that a search looks at, those near the top first."""
_LINKS: Final = 200
"""Number of directories below a protected one, and of names in each, that are checked for links."""
_SHOWN: Final = 20
"""Number of files that are reported for a directory that appeared."""


class Mark(NamedTuple):
    """Device, inode and last change (ctime, in ns) of a file; whether it is a link, over which nothing is mounted."""

    device: int
    inode: int
    changed: int
    is_link: bool


def is_new(mark: Mark | None, before: Mark | None) -> bool:
    """Return whether a program may have made the file: before, nothing or a link was there, or a link is there now."""
    return mark is not None and mark != before and (before is None or before.is_link or mark.is_link)


class Appeared(NamedTuple):
    """A protected file that was not there, or not protected, or a link, before.

    `was_nothing`: the path was watched, and nothing was there. Otherwise the file may be an older one of the user's
    that a configuration names only now. `has_more`: the path is a directory with further files, which are not named.
    """

    path: str
    was_nothing: bool
    has_more: bool = False


class Protection:
    """Tells what is protected in a session's directories.

    Args:
        roots: the directories, absolute, links resolved.
        installation: the parts of this program's installation in them.
    """

    def __init__(self, roots: tuple[str, ...], installation: Installation = _ELSEWHERE) -> None:
        self.installation = installation
        self.shut = ""
        """A root, or a directory or configuration of a repository, that its owner, this user, may not read, found by
        the last search; "" if there is none. What is protected there is unknown then."""
        self.too_long = ""
        """A root, or a configuration or repository of git, of which the last search did not find all that is protected
        there or that it names, because there is too much; "" if there is none."""
        self._roots = roots
        self._found: tuple[str, ...] = ()
        """The result of the last search."""
        self._closed: tuple[str, ...] = ()
        """Directories that the last search could not list or enter."""
        self._found_marks: Mapping[str, Mark | None] | None = None
        self._read: set[str] = set()
        """Configuration of git, anywhere."""
        self._led_to: set[str] = set()
        """Links on the ways of protected paths, and their targets, found by the last search."""
        self._named_anywhere: set[str] = set()
        """Paths that git configurations name, found by the last search; they may lie outside the repository."""
        self._by_variable = dict(_places_in_variables(roots))
        self._in_git: tuple[str, ...] = ()
        """Paths in the repositories that the last search found where git makes protected files, existing or not."""
        self._folders: dict[str, int] = {}
        """The directories that the last search looked at, with the times of their last change."""

    @property
    def repositories(self) -> Collection[str]:
        """The repositories that the last search found in the roots; the own one of a root may be missing."""
        return dict.fromkeys(map(os.path.dirname, self._in_git))

    def why(self, path: str) -> str:
        """Return why a real absolute path is protected, whether or not it exists; "" if it is not.

        The result continues the sentence "it is protected, because ..." and names no path.
        """
        return (
            self.why_by_name(path)
            or _why_in_configuration(path)
            or next((why for place, why in self._by_variable.items() if _is_on_way(path, place)), "")
            or (_RUNS_FROM if is_inside(path, (*self.installation.parts, *self.installation.open)) else "")
            or self._why_in_repository(path)
            or (_NAMED if any(_is_on_way(path, place) for place in self._named_for(path)) else "")
            or (_ABOVE if _is_above_rows(path) and _is_replaceable(path) else "")
            or (_LED_TO if any(_is_on_way(path, place) for place in self._led_to) else "")
            or (_WAS_FOUND if is_inside(path, self._found) else "")
        )

    def holds_below(self, path: str) -> str:
        """Return why moving or removing a directory (a real path) needs a question; "" if none of it is protected."""
        return _WAS_FOUND if any(is_inside(place, (path,)) and _may_exist(place) for place in self._found) else ""

    def why_by_name(self, path: str) -> str:
        """Like `why`, but only by the names in the path below the session's directory, without the file system."""
        root = max((each for each in self._roots if is_inside(path, (each,))), key=len, default="/")
        below = fold(path[len(root) :].strip("/")).split("/")
        return why_by_name(below) or BY_NAME.get(f"{fold(os.path.basename(root))}/{below[0]}", "")

    def places(self) -> tuple[str, ...]:
        """Return the paths to mount read-only: those that exist, and those of a root's own repository.

        Directories that may not be listed are among them, because something protected may be in one.

        Creates the directories of settings that this program reads, if a root contains them, and those of the bytecode
        of modules that Python imports at its start, because only existing paths can be mounted.
        """
        found: dict[str, None] = {}
        # Other threads ask meanwhile, so what was found before stands until all is found.
        folders: dict[str, int] = {}
        led_to: set[str] = set()
        named = {*self._by_variable, *(path for path in map(real_path, of_user()) if is_inside(path, self._roots))}
        read: set[str] = set()
        too_long = ""
        linked: list[str] = []
        closed: list[str] = []
        shut: list[str] = []
        in_git: list[str] = []
        for root in self._roots:
            shut += (root,) if _is_shut(root, os.R_OK | os.X_OK) else ()
            git = os.path.join(root, GIT)
            repositories: list[str] = []
            rows = list(_rows_below(root, os.path.dirname(root), (os.path.basename(root),)))
            for folder, names in _folders(root, _is_git, times=folders, closed=closed):
                repositories += (each for each in _repositories_at(folder, names, folders) if each != git)
                rows += _rows_at(folder, names)
                linked += _rows_behind_links(folder, names)
            for repository in (git, *repositories[:_MOST]):
                folders |= {folder: _changed_at(folder) for folder in _growing_in(repository)}
                in_git += (os.path.join(repository, name) for name in _KERNEL_HELD_IF_THERE)
                found.update(dict.fromkeys(_held_places(repository)))
                if os.path.isfile(repository):
                    targets = map(real_path, configured(repository, _top_of(repository)))
                    inside = (each for each in targets if is_inside(each, (root,)))
                    found.update(dict.fromkeys(place for each in inside for place in _held_places(each)))
            for repository in _repositories_above(root):
                linked += (name for place in _held_places(repository) for name in _names_below(place))
            linked += (os.path.join(folder, row.name) for folder in map(str, PurePath(root).parents) for row in ROWS)
            for repository in (git, *repositories[:_MOST], *_repositories_above(root)):
                shut += _shut_in(repository)
                looks = Looks(repository)
                there, missing = _named_now(named_by(repository, _top_of(repository), self._roots, read, looks))
                named.update((*there[:_MOST_NAMED], *missing[:_MOST_MISSING]))
                too_long = too_long or looks.too_long or (repository if len(there) > _MOST_NAMED else "")
            if is_inside(base := _configuration(), (root,)):
                for name in _MADE:
                    with suppress(OSError):
                        os.makedirs(os.path.join(base, name), mode=0o700, exist_ok=True)
                rows += (each for each in _rows_of_configuration() if os.path.lexists(each))
            too_long = too_long or (root if len(repositories) > _MOST or len(rows) > _MOST_ROWS else "")
            found.update(dict.fromkeys((*sorted(named), *rows[:_MOST_ROWS])))
        # Not forgotten while it is there: whoever makes many others could have it left out.
        own = self.installation.parts
        shut += (each for part in own for each in self._above(part) if _is_shut(each, os.R_OK | os.X_OK))
        found.update(dict.fromkeys(each for each in self._found if each not in own and _may_exist(each)))
        for place in (
            *linked,
            *(name for each in _of_user() for name in _names_below(each)),
            *(name for each in found for name in _names_below(each)),
        ):
            led_to.update(each for each in _ways(place) if is_inside(each, self._roots))
        led_to.difference_update(self._roots, found)
        own = tuple(filter(_may_exist, own))  # whose many names are not looked through for links
        self._found = (*dict.fromkeys((*found, *own)), *filter(_may_exist, sorted(led_to)))
        self._led_to, self._named_anywhere, self._folders = led_to, named, folders
        self._read, self._closed, self._in_git = read, tuple(closed[:_MOST_CLOSED]), tuple(in_git)
        self.shut = shut[0] if shut else ""
        self.too_long = too_long
        self._found_marks = self._marks()
        return (*self._found, *self._closed)

    def current_places(self) -> tuple[str, ...]:
        """Return the places, with a new search only if something may have appeared since the last one."""
        return (*self._found, *self._closed) if self._found_marks == self.marks() else self.places()

    def appeared(self, before: Mapping[str, Mark | None]) -> Iterator[Appeared]:
        """Yield the files that have appeared since `marks` returned `before`; for a directory, some of the files in it.

        Changed and replaced links are included, because nothing can be mounted over a link. Each place has its first
        file before any has a second one, those near the top first, because whoever makes many must not hide one.
        """
        new = [path for path, mark in self.marks().items() if is_new(mark, before.get(path))]
        new.sort(key=lambda path: (path.count("/"), fold(os.path.basename(path)) not in BY_NAME, path))
        rows = [list(_appeared_at(path, path in before and before[path] is None)) for path in new]
        yield from filter(None, chain.from_iterable(zip_longest(*rows)))

    def marks(self) -> Mapping[str, Mark | None]:
        """Return the mark of the file at each found path, and at paths where one may appear; None if there is no file.

        If two results differ, `places` must be called again, and files mounted read-only before may no longer be so.
        Searches again if a directory has changed.
        """
        if self.has_changed:
            self.places()
        return self._marks()

    @property
    def has_changed(self) -> bool:
        """Whether `marks` will search again, which may take seconds."""
        return any(_changed_at(folder) != time for folder, time in self._folders.items())

    def _marks(self) -> Mapping[str, Mark | None]:
        usual = (os.path.join(root, row.name) for root in self._roots for row in ROWS)
        above = {git for root in self._roots for git in _repositories_above(root)}
        usual = (*usual, *(each for each in _rows_of_configuration() if is_inside(each, self._roots)))
        others = (*of_user(), *(os.path.join(git, name) for git in above for name in CONFIGURATIONS))
        return {
            path: _identity(path) for path in (*self._found, *self._closed, *self._in_git, *usual, *others, *self._read)
        }

    def _above(self, path: str) -> Iterator[str]:
        """Return the directories above a path that are in the session's directories, or are one, innermost first."""
        return (folder for folder in map(str, PurePath(path).parents) if is_inside(folder, self._roots))

    def _why_in_repository(self, path: str) -> str:
        for folder in self._above(path):
            below = fold(path[len(folder.rstrip("/")) + 1 :]).split("/")
            found = _names_in(folder)
            if _is_whole(found):
                if reason := why_in_git(below):
                    return reason
            elif _is_whole(found | {below[0]}):
                return _NEW_REPOSITORY
        return ""

    def _named_for(self, path: str) -> Iterator[str]:
        yield from tuple(self._named_anywhere)
        for repository in _repositories_above(path):
            yield from named_by(repository, _top_of(repository), self._roots, set())


def _appeared_at(path: str, was_nothing: bool) -> Iterator[Appeared]:
    """Yield the first _SHOWN files at a path, or the directory itself if it has none; and whether there are more."""
    files = list(islice(_files_at(path), _SHOWN + 1))
    yield from (Appeared(each, was_nothing) for each in files[:_SHOWN] or (path,))
    if len(files) > _SHOWN:
        yield Appeared(path, was_nothing, has_more=True)


def _files_at(path: str) -> Iterator[str]:
    """Yield the path, or if it is a directory, the files in the first directories of it."""
    if not os.path.isdir(path) or os.path.islink(path):
        yield path
        return
    for folder, names in _folders(path, _is_none):
        places = (os.path.join(folder, name) for name in names)
        yield from (each for each in places if not os.path.isdir(each) or os.path.islink(each))


def _named_now(found: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the different paths where something is, and the others."""
    there: list[str] = []
    missing: list[str] = []
    for path in dict.fromkeys(found):
        (there if os.path.lexists(path) else missing).append(path)
    return there, missing


def _shut_in(repository: str) -> Iterator[str]:
    """Yield the directories and configurations of a repository that belong to this user, who may not read them.

    A program can take that right away, and give it back later. What belongs to others, it can not open either.
    """
    work_trees = [*_growing_in(repository)]
    folders = [repository, *work_trees]
    for modules in (os.path.join(folder, "modules") for folder in (repository, *work_trees[1:])):
        folders.append(modules)
        deque(_folders(modules, _is_data, closed=folders), maxlen=0)
    files = (os.path.join(folder, name) for folder in (repository, *work_trees[1:]) for name in CONFIGURATIONS)
    yield from (each for each in folders if _is_shut(each, os.R_OK | os.X_OK))
    yield from (each for each in files if _is_shut(each, os.R_OK))


def _is_shut(path: str, needed: int) -> bool:
    try:
        found = os.stat(path)
    except OSError:  # a directory above that is shut is found by itself
        return False
    return found.st_uid == os.geteuid() and not os.access(path, needed if stat.S_ISDIR(found.st_mode) else os.R_OK)


def _may_exist(path: str) -> bool:
    """Return False only if nothing is there: a statement may have taken the right to look from everybody."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _identity(path: str) -> Mark | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    # The time, because a file system may reuse an inode at once.
    return Mark(found.st_dev, found.st_ino, found.st_ctime_ns, stat.S_ISLNK(found.st_mode))


def _repositories_above(path: str) -> Iterator[str]:
    """Yield the repositories that may contain the path, bare ones too, even above the session's directories."""
    for folder in map(str, PurePath(path).parents):
        git = os.path.join(folder, GIT)
        if os.path.lexists(git):
            yield git
        elif _is_whole(_names_in(folder)):
            yield folder


def _top_of(repository: str) -> str:
    return os.path.dirname(repository) if fold(os.path.basename(repository)) == GIT else repository


def _names_below(place: str) -> Iterator[str]:
    """Yield the place and the paths below it, level by level; any of them may be a link."""
    yield place
    for folder, names in islice(_folders(place, _is_data), _LINKS):
        yield from islice((os.path.join(folder, name) for name in names), _LINKS)


def _ways(path: str) -> Iterator[str]:
    """Yield the links on the way of the path and, if any, the real path: replacing a link redirects the path."""
    links = list(links_to(path))
    yield from links
    if links:
        yield real_path(path)


def _of_user() -> Iterator[str]:
    """Yield the user's files that this program, git, shells and editors read; links may lead from them into a root."""
    yield os.path.join(_configuration(), os.path.basename(OWN), "config.toml")
    yield from of_user()
    yield from _rows_of_configuration()
    home = os.path.expanduser("~")
    yield from (os.path.join(home, row.name) for row in ROWS)


def _is_replaceable(path: str) -> bool:
    """Return whether a directory could be moved to the path: no directory is there, or an empty one."""
    try:
        return not os.listdir(path)
    except OSError:
        return True


def _configuration() -> str:
    """Return the directory of the user's settings, links resolved: `.config`, or what XDG_CONFIG_HOME says."""
    return real_path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))


def _why_in_configuration(path: str) -> str:
    base = _configuration()
    below = fold(path[len(base) :].strip("/")).partition("/")[0] if is_inside(path, (base,)) else ""
    return BY_NAME.get(CONFIGURATION + below, "")


def _places_in_variables(roots: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the real paths in the roots that variables name, with the reasons why they are protected."""
    named = [(os.environ.get(variable, ""), why) for variable, why in BY_VARIABLE.items()]
    for repository in filter(None, map(os.environ.get, REPOSITORY_VARIABLES)):
        named += ((os.path.join(repository, name), why) for name, why in GIT_RUNS.items())
    for value, why in named:
        # Some hold several paths, separated by colons or blanks, and a shell expands others.
        several = dict.fromkeys((value, *re.split(r"[:\s]+", value)))
        paths = (os.path.expanduser(os.path.expandvars(each)) for each in several)
        places = [real_path(os.path.join(root, path)) for path in paths for root in roots if path]
        yield from ((place, why) for place in places if is_inside(place, roots) and place not in roots)
    for path in libpq_files.named_paths(os.environ):
        places = [real_path(os.path.join(root, path)) for root in roots]
        yield from ((place, DATABASES) for place in places if is_inside(place, roots) and place not in roots)


def _rows_of_configuration() -> Iterator[str]:
    """Yield the paths of the table's rows in the user's directory of settings, wherever that is."""
    base = _configuration()
    return (os.path.join(base, name[len(CONFIGURATION) :]) for name in BY_NAME if name.startswith(CONFIGURATION))


def _is_above_rows(path: str) -> bool:
    return fold(os.path.basename(path)) in ABOVE_ROWS or path == _configuration()


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_ctime_ns  # unlike mtime, programs cannot set it
    except OSError:
        return 0


def may_make_repository(path: str) -> bool:
    """Return whether a name in the path is one that makes a directory a repository, beside others of them."""
    return any(fold(part) in _FOLDED for part in path.split("/"))


def _is_on_way(path: str, place: str) -> bool:
    """Return whether the path is the place, or in it, or above it, so that moving the path moves the place."""
    return is_inside(path, (place,)) or is_inside(place, (path,))


def _may_be_whole(names: frozenset[str]) -> bool:
    """Return whether a directory with these names is a repository, or may be one with a part moved away for a while."""
    return _is_whole(names) or ("config" in names and len({HEAD, OBJECTS, REFS} & names) > 1)


def _is_whole(names: frozenset[str]) -> bool:
    """Return whether git takes a directory with these names for a repository."""
    return HEAD in names and (COMMON_DIR in names or {OBJECTS, REFS} <= names)


def _names_in(folder: str) -> frozenset[str]:
    """Return which of the names that make a directory a repository exist in it."""
    return frozenset(fold(name) for name in _OF_REPOSITORIES if os.path.lexists(os.path.join(folder, name)))


# --- on the disk ------------------------------------------------------------------------------------------------------


def _held_places(git: str) -> Iterator[str]:
    if os.path.isfile(git):
        yield git
        return
    yield from (os.path.join(git, name) for name in _KERNEL_HELD)
    work_trees = work_trees_in(git)
    if len(work_trees) > _MOST_WORK_TREES:
        yield os.path.join(git, WORK_TREES)
        work_trees = []
    for folder in (git, *work_trees):
        names = _KERNEL_HELD_IF_THERE if folder == git else (*_KERNEL_HELD, *_KERNEL_HELD_IF_THERE)
        yield from filter(os.path.lexists, (os.path.join(folder, name) for name in names))


def _rows_at(folder: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if fold(name) in BY_NAME or fold(name).endswith(WORKSPACE_SUFFIX):
            yield os.path.join(folder, name)
        elif stem_of(fold(name)) in BY_NAME:
            yield os.path.join(folder, name)
            yield _bytecode_beside(os.path.join(folder, name))
    yield from _rows_below(folder, folder, names)


def _bytecode_beside(path: str) -> str:
    """Return the directory from which Python takes the module's bytecode, made if it is missing, to be mounted."""
    folder = os.path.dirname(path)
    if os.path.basename(folder) == _BYTECODE:
        return folder
    # In this very directory: a program may put a link in its place meanwhile.
    with suppress(OSError, ValueError), opened_directory(folder) as directory:
        if path_of(directory) == folder:
            os.mkdir(_BYTECODE, dir_fd=directory)
    return os.path.join(folder, _BYTECODE)


def _rows_below(root: str, folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield existing paths of two-part rows: the second part in one of the directories `names`, if within the root."""
    for name in _above_rows(names):
        for first, second in TWO_PARTS:
            path = os.path.join(folder, name, second)
            if fold(name) == first and is_inside(path, (root,)) and os.path.lexists(path):
                yield path


def _rows_behind_links(folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield paths of two-part rows whose directory is a link, existing or not: its target does not have that name."""
    for name in _above_rows(names):
        if os.path.islink(os.path.join(folder, name)):
            yield from (os.path.join(folder, name, second) for first, second in TWO_PARTS if fold(name) == first)


def _above_rows(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if fold(name) in ABOVE_ROWS)


def _repositories_at(folder: str, names: Iterable[str], times: dict[str, int]) -> Iterator[str]:
    """Yield the `.git` of a work tree, repositories of its submodules, and the folder if it is a bare repository.

    `times` is filled as by `_folders`, with directories in which git makes further submodules; some may be missing.
    """
    for name in dict.fromkeys((GIT, *(name for name in names if fold(name) == GIT))):
        git = os.path.join(folder, name)
        if not os.path.lexists(git):
            continue
        yield git
        yield from _submodules(os.path.join(git, "modules"), times)
        for work_tree in work_trees_in(git):
            yield from _submodules(os.path.join(work_tree, "modules"), times)
    if _may_be_whole(frozenset(map(fold, names))):
        yield folder


def _growing_in(repository: str) -> Iterator[str]:
    """Yield directories of a repository in which git makes linked work trees, and those; some may be missing."""
    yield os.path.join(repository, WORK_TREES)
    yield from work_trees_in(repository)


def _submodules(modules: str, times: dict[str, int]) -> Iterator[str]:
    """Yield the repositories below a `modules` directory, nested ones too; their names may have slashes.

    `times` is filled as by `_folders`.
    """
    found = _folders(modules, _is_data, times=times)
    return (folder for folder, names in found if not {"HEAD", "config"}.isdisjoint(names))


def _is_none(_beside: Collection[str], _name: str) -> bool:
    return False


def _is_git(_: Collection[str], name: str) -> bool:
    return fold(name) == GIT


def _is_data(beside: Collection[str], name: str) -> bool:
    """Return whether a name is a data directory of a repository, and not a submodule of that name."""
    return name in GIT_DATA and not {"HEAD", "config"}.isdisjoint(beside)


def _folders(
    top: str,
    is_leaf: Callable[[Collection[str], str], bool],
    times: dict[str, int] | None = None,
    closed: list[str] | None = None,
) -> Iterator[tuple[str, list[str]]]:
    """Yield the directory and those below it, level by level, each with the sorted names in it.

    Args:
        is_leaf: tells, from the names in a directory and one of them, whether not to descend into that one.
        times: is filled with the time of the last change of each directory.
        closed: is filled with the directories below the top that may not be listed or entered; they are not yielded.
    """
    waiting = deque([top])
    for _ in range(_LOOKED_AT):
        if not waiting:
            return
        folder = waiting.popleft()
        if times is not None:
            times[folder] = _changed_at(folder)
        if closed is not None and folder != top and not os.access(folder, os.R_OK | os.X_OK):
            closed.append(folder)
            continue
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError), os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        names = [entry.name for entry in entries]
        yield folder, names
        for entry in entries:
            with suppress(OSError):
                if not is_leaf(names, entry.name) and entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
