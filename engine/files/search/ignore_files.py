"""The place of a search, the files that ignore files exclude there, and completion of typed paths.

Names and rules match in either Unicode form. Ignore files count from the top: the root of the repository around the
place, else the workspace's root. Files above belong to other projects. Must not know how files are searched. Used by
the tools `grep` and `find`, by globs of groups (`runtime.worker.handles.trees`) and by whoever types a path.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from ..pins import path_of
from ..safe_open import opened_directory, opened_file, own_below, pinned_stat, real_roots
from ..spellings import composed

REPOSITORY: Final = ".git"
VERSION_CONTROL: Final = (".git", ".hg", ".jj", ".svn")
"""Directories of other programs; all other hidden files are searched."""
IGNORE_FILES: Final = (".rgignore", ".ignore", ".gitignore")
"""Names of ignore files. A rule in an earlier kind, at any level, overrides all rules in later kinds."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a search: all of `directory`, or its file `name`.

    Paths are real, with links resolved.

    `above` are the directories from the top to the directory's parent, outermost first. `in_repository`: the top is
    that of a repository. `strangers`: a directory above the top has ignore files that a program which does not know the
    top would respect. `kept_out` are paths below `directory` that belong to Rewindow and are not searched.
    """

    directory: str
    name: str | None
    above: tuple[str, ...]
    in_repository: bool
    strangers: bool
    kept_out: tuple[str, ...] = ()


def place_of(path: str, roots: tuple[str, ...]) -> Place:
    """Return the place at an absolute path.

    Raises:
        OSError: it does not exist, is neither a directory nor a regular file, or is outside the roots.
        ValueError: the path contains a NUL character.
    """
    try:
        with opened_directory(path, roots) as descriptor:
            directory, name = path_of(descriptor), None
    except NotADirectoryError:
        with opened_file(path, roots) as file:
            directory, name = os.path.split(path_of(file.fileno()))
    chain = [directory, *map(str, Path(directory).parents)]
    top, in_repository = _top(chain, roots)
    above = chain[1 : chain.index(top) + 1] if top != directory else []
    outside = chain[chain.index(top) + 1 :]
    # git's own rules end with the repository in every program.
    names = IGNORE_FILES[:-1] if in_repository else IGNORE_FILES
    return Place(
        directory=directory,
        name=name,
        above=tuple(reversed(above)),
        in_repository=in_repository,
        strangers=any(os.path.lexists(os.path.join(each, file)) for each in outside for file in names),
        kept_out=own_below(directory),
    )


def _top(chain: list[str], roots: tuple[str, ...]) -> tuple[str, bool]:
    for each in chain:
        if os.path.exists(os.path.join(each, REPOSITORY)):
            return each, True
    inside = real_roots(roots)
    return next((each for each in chain if each in inside), chain[0]), False


# --- ignore files ----------------------------------------------------------------------------------------------------


_OF_GIT: Final = (IGNORE_FILES[-1], "exclude")
_KINDS: Final = (*IGNORE_FILES, "exclude")
_LARGEST: Final = 128 << 10
"""Bytes of an ignore file that are read; a statement may have written it, and each name is matched with all of it."""
_SET: Final = re.compile(r"\[(?P<not>[!^]?)(?P<set>\]?(?:\[:[a-z]+:\]|\\.|[^\]\\])*)\]", re.DOTALL)
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
# Bound here, because a statement may replace these functions in their modules.
_open, _close, _read, _fstat, _stat, _exists = os.open, os.close, os.read, os.fstat, os.stat, os.path.exists

Stamp = tuple[int, int, int, int]
"""Change times, size and inode of an ignore file; zeros if it does not exist."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive lines with the same decision: those that match names, and those that match paths."""

    left_out: bool
    names: re.Pattern[str] | None
    paths: re.Pattern[str] | None

    def matches(self, path: str, name: str) -> bool:
        if self.names is not None and self.names.fullmatch(name):
            return True
        return self.paths is not None and self.paths.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class _Level:
    """A directory's rules by kind, last lines first.

    `below` leads from it to the start of the walk, `prefix` from there to it; one of them is empty. `files` are all
    possible ignore files with their stamps, existing or not.
    """

    rules: dict[str, tuple[_Run, ...]]
    is_repository: bool
    below: str
    prefix: str
    files: tuple[tuple[str, Stamp], ...]


class IgnoreFiles:
    """The rules of a directory and of all above it, outermost first, for repeated walks: read once per change.

    In one file the last matching line decides; among files of one kind the innermost that matches; among kinds the
    first of `IGNORE_FILES`. An entry is judged by its own name and path alone, because excluded directories are not
    entered. gitignore(5) describes the language; tests compare with git and ripgrep. No library parses it, because a
    worker runs the project's code, which may have another version. `in_repository`: git's rules are those of
    repositories, and end where one begins. `git_only`: those of other programs do not count.
    """

    __slots__ = ("_in_repository", "_kinds", "_levels")

    def __init__(self, *, in_repository: bool, git_only: bool = False, levels: tuple[_Level, ...] = ()) -> None:
        self._in_repository = in_repository
        self._kinds = _OF_GIT if git_only else _KINDS
        self._levels = levels

    @property
    def files(self) -> Sequence[tuple[str, Stamp]]:
        """All possible ignore files with their stamps, existing or not."""
        return [each for level in self._levels for each in level.files]

    def within(self, directory: str, *, below: str = "", prefix: str = "") -> IgnoreFiles:
        """Add the rules of a subdirectory. Unreadable files have no rules."""
        paths = {kind: os.path.join(directory, kind) for kind in IGNORE_FILES if kind in self._kinds}
        repository = os.path.join(directory, REPOSITORY)
        begins = self._in_repository and _exists(repository)
        shared = _common_directory(repository) if begins else repository
        paths["exclude"] = os.path.join(shared, "info", "exclude")
        found = {kind: _read_file(path) for kind, path in paths.items()}
        rules = {kind: runs for kind, (text, _) in found.items() if (runs := _runs(text))}
        if not rules and not begins:
            return self
        files = tuple((paths[kind], stamp) for kind, (_, stamp) in found.items())
        level = _Level(rules, begins, below, prefix, files)
        is_git_only = self._kinds is _OF_GIT
        return IgnoreFiles(in_repository=self._in_repository, git_only=is_git_only, levels=(*self._levels, level))

    def is_current(self, above: IgnoreFiles | None = None) -> bool:
        """Return whether the ignore files are unchanged.

        With `above`, only those that are not in `above`.
        """
        levels = self._levels[len(above._levels) :] if above is not None else self._levels
        return all(_stamp(path) == stamp for level in levels for path, stamp in level.files)

    def includes_again(self) -> bool:
        """Return whether a rule that is not git's includes files, which later kinds of rules may exclude."""
        rules = (runs for level in self._levels for kind, runs in level.rules.items() if kind not in _OF_GIT)
        return any(not run.left_out for runs in rules for run in runs)

    def leave_out(self, path: str, name: str) -> bool:
        """Return whether an entry is excluded.

        `path` starts at the walk's start, a directory's ends in a slash.
        """
        for kind in self._kinds:
            decision = self._decision(kind, path, name)
            if decision is not None:
                return decision
        return False

    def _decision(self, kind: str, path: str, name: str) -> bool | None:
        name = composed(name)
        for level in reversed(self._levels):
            own = composed(level.below + path if level.below else path[len(level.prefix) :])
            for run in level.rules.get(kind, ()):
                if run.matches(own, name):
                    return run.left_out
            if level.is_repository and kind in _OF_GIT:
                return None
        return None


def rules_above(place: Place, *, git_only: bool = False) -> IgnoreFiles:
    """Return the rules of the directories above a place, from the top."""
    rules = IgnoreFiles(in_repository=place.in_repository, git_only=git_only)
    for each in place.above:
        rules = rules.within(each, below=f"{os.path.relpath(place.directory, each)}/")
    return rules


def has_unseen_rules(place: Place) -> bool:
    """Return whether rules above the place count that ripgrep cannot use, as it would use those of strangers too."""
    return place.name is None and place.strangers and bool(place.above)


class FileRules:
    """Decides about files below a place, by the rules from the top to each file. Reads each directory once."""

    __slots__ = ("_directory", "_known")

    def __init__(self, place: Place) -> None:
        self._directory = place.directory
        self._known: dict[str, IgnoreFiles | None] = {"": rules_above(place).within(place.directory)}

    def leave_out(self, path: str) -> bool:
        """Return whether a file is excluded, or a directory on the way to it. `path` starts at the place."""
        folder, slash, name = path.rpartition("/")
        rules = self._within(folder + slash)
        return rules is None or rules.leave_out(path, name)

    def _within(self, folder: str) -> IgnoreFiles | None:
        """Return the rules in a directory; None if it is excluded."""
        known = folder
        while known not in self._known:
            known = known[: known.rfind("/", 0, -1) + 1]
        rules = self._known[known]
        for name in folder[len(known) :].split("/")[:-1]:
            known += f"{name}/"
            if rules is not None:
                excluded = rules.leave_out(known, f"{name}/")
                rules = None if excluded else rules.within(os.path.join(self._directory, known), prefix=known)
            self._known[known] = rules
        return rules


# --- files -----------------------------------------------------------------------------------------------------------


def _stamp(path: str) -> Stamp:
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return (0, 0, 0, 0)
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _read_file(path: str) -> tuple[str, Stamp]:
    # Without blocking, and regular files only: a pipe may have the name too. Stamped first, to notice later changes.
    stamp = _stamp(path)
    try:
        descriptor = _open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return "", stamp
    try:
        if not stat.S_ISREG(_fstat(descriptor).st_mode):
            return "", stamp
        return _read(descriptor, _LARGEST).decode("utf-8", "surrogateescape"), stamp
    except OSError:
        return "", stamp
    finally:
        _close(descriptor)


def _common_directory(repository: str) -> str:
    """Return the directory that git's work trees share; a `.git` file leads to it through the tree's own directory."""
    if os.path.isdir(repository):
        return repository
    own = _read_file(repository)[0].partition("gitdir:")[2].strip()
    own = os.path.join(os.path.dirname(repository), own)
    return os.path.join(own, _read_file(os.path.join(own, "commondir"))[0].strip() or ".")


# --- lines -----------------------------------------------------------------------------------------------------------


def _runs(text: str) -> tuple[_Run, ...]:
    lines = [
        found for line in composed(text).removeprefix("\ufeff").split("\n") if (found := _line(line.removesuffix("\r")))
    ]
    runs: list[_Run] = []
    while lines:
        left_out = lines[-1][2]
        first = next((at + 1 for at in range(len(lines) - 1, -1, -1) if lines[at][2] != left_out), 0)
        alike, lines = lines[first:], lines[:first]
        runs.append(_Run(left_out, _any_of(alike, on_name=True), _any_of(alike, on_name=False)))
    return tuple(runs)


def _any_of(lines: Sequence[tuple[str, bool, bool]], *, on_name: bool) -> re.Pattern[str] | None:
    found = [expression for expression, is_name, _ in lines if is_name == on_name]
    return re.compile("|".join(found), re.DOTALL) if found else None


def _line(line: str) -> tuple[str, bool, bool] | None:
    """Return a line's expression, whether it matches names, and whether it excludes; None without a rule."""
    line = _without_blanks(line)
    left_out = not line.startswith("!")
    line = line if left_out else line[1:]
    if not line.strip("/") or line.startswith("#"):
        return None
    of_directory = line.endswith("/")
    anchored = "/" in line.rstrip("/")
    segments = [segment for at, segment in enumerate(line.rstrip("/").split("/")) if segment or at]
    if len(segments) == 2 and segments[0] == "**":  # noqa: PLR2004 -- as if the name stood alone
        anchored, segments = False, segments[1:]
    try:
        expression = _path(segments) if anchored else _segment(segments[0])
        re.compile(expression, re.DOTALL)
    except (ValueError, re.error):
        return None
    return f"(?:{expression}{'/' if of_directory else '/?'})", not anchored, left_out


def _without_blanks(line: str) -> str:
    """Remove blanks at the end, unless a backslash is before them."""
    bare = line.rstrip(" \t")
    kept = len(bare) - len(bare.rstrip("\\"))
    return line[: len(bare) + 1] if kept % 2 and len(line) > len(bare) else bare


# The host matches rules that a statement may have written, so no match backtracks over more than a piece. Between two
# `**` there is a fixed number of segments, and between two `*` a fixed number of characters, so the first place where
# such a piece matches is as good as any later one: an atomic group takes the first.
_STAR: Final = "[^/]*"
_DEEP: Final = "(?:[^/]+/)*"


def _path(segments: Sequence[str]) -> str:
    first, *others = _split_at(map(_segment_or_deep, segments), _DEEP)
    if not others:
        return "/".join(first)
    *middle, last = others
    parts = [f"{segment}/" for segment in first]
    parts += [f"(?>{_DEEP}?{'/'.join(each)}/)" for each in middle if each]
    return "".join(parts) + (_DEEP + "/".join(last) if last else ".+")


def _segment_or_deep(segment: str) -> str:
    return _DEEP if segment == "**" else _segment(segment)


def _segment(segment: str) -> str:
    if not segment.strip("*"):
        return "[^/]+"  # a name is never empty, even if a directory's slash follows
    first, *others = map("".join, _split_at(_pieces(segment), _STAR))
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>{_STAR}?{each})" for each in middle if each) + _STAR + last


def _split_at(parts: Iterable[str], separator: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for part in parts:
        if part == separator:
            found.append([])
        else:
            found[-1].append(part)
    return found


def _pieces(segment: str) -> Iterator[str]:
    """Yield the expressions of single characters, and _STAR."""
    at = 0
    while at < len(segment):
        char = segment[at]
        at += 1
        if char == "*":
            yield _STAR
        elif char == "?":
            yield "[^/]"
        elif char == "[":
            found = _SET.match(segment, at - 1)
            if found is None:
                raise ValueError("a character set has no end")
            at = found.end()
            yield f"(?!/)[{'^' if found['not'] else ''}{_members(found['set'])}]"
        elif char == "\\":
            if at == len(segment):
                raise ValueError("a pattern ends in a backslash")
            yield re.escape(segment[at])
            at += 1
        else:
            yield re.escape(char)


def _members(text: str) -> str:
    named = re.split(r"\[:([a-z]+):\]", text)
    plain = (re.sub(r"\\(.)|([\[\]^&~|])", _member, part, flags=re.DOTALL) for part in named[::2])
    classes = (_POSIX.get(name, "") for name in named[1::2])
    return "".join(part + name for part, name in zip(plain, (*classes, ""), strict=True))


def _member(found: re.Match[str]) -> str:
    return re.escape(found[1] or found[2])


_MOST_READ: Final = 20_000
"""Number of names in a directory that are read."""


def complete_path(start: str, roots: tuple[str, ...], *, directories: bool = False) -> list[str]:
    """Return the paths that begin with `start`, sorted.

    Directories end in a slash.

    Args:
        start: relative to the first root, absolute, or from `~`; the last part may be incomplete.
        roots: absolute directories. Paths outside, unreadable ones, and those of pipes and devices are omitted.
        directories: omits files.
    """
    above, slash, name = start.rpartition("/")
    folder = os.path.join(roots[0], os.path.expanduser(above + slash))
    others = [f"{root.rstrip('/')}/" for root in roots if start.startswith("/") or root != roots[0]]
    found = [root for root in others if root.startswith(start)] if start[:1] in ("", "/") else []
    try:
        names = list(_names(folder, name, roots))
    except (OSError, ValueError):
        names = []
    return found + [above + slash + each for each in sorted(names) if each.endswith("/") or not directories]


def _names(folder: str, start: str, roots: tuple[str, ...]) -> Iterator[str]:
    beginning = place_of(folder, roots)
    rules = rules_above(beginning).within(beginning.directory)
    with opened_directory(folder, roots) as descriptor:
        place = path_of(descriptor)
        with os.scandir(descriptor) as listed:
            for entry in itertools.islice(listed, _MOST_READ):
                name = entry.name
                if not name.startswith(start) or not _is_offered(name, start):
                    continue
                mark = _mark(entry, os.path.join(place, name), roots)
                if mark is not None and not rules.leave_out(f"{name}{mark}", f"{name}{mark}"):
                    yield f"{name}{mark}"


def _is_offered(name: str, start: str) -> bool:
    """Return whether to offer a name: hidden ones on request only, unprintable ones never."""
    return name not in VERSION_CONTROL and name.isprintable() and (start.startswith(".") or not name.startswith("."))


def _mark(entry: os.DirEntry[str], path: str, roots: tuple[str, ...]) -> str | None:
    """Return what follows the path of an entry, "/" for a directory.

    Returns None to omit it.
    """
    try:
        mode = pinned_stat(path, roots).st_mode if entry.is_symlink() else entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return None
    if S_ISDIR(mode):
        return "/"
    return "" if S_ISREG(mode) else None
