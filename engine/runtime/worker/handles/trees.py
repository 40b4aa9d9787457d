"""Files for nodes, straight from the operating system: globs, trees that are listed repeatedly, and opening.

`Globs` finds the root of a glob in a statement. A text without a star or similar sign is a path: that file, or all
files below that directory. No file is looked up for that, so it means the same when the statement runs again.

`Tree` lists the files that match a glob, repeatedly. A directory is read again only if its stamp has changed, or that
of a file of ignore rules that applies to it. The results for its entries are cached with it. A young directory is
always read again, because kernels count stamps in ticks. No link below the root is entered, and only regular files are
listed. The root is pinned (`files.safe_open`), and the kernel tells the real path of each directory that is opened
below it: a glob may name a link, and a directory may have become a link since it was listed. O_NOFOLLOW detects a link
only in the last name of a path.

The worker lists files, not the host, because statements and ticks need the lists; 100,000 files take 0.25 s.
`DirectFiles` implements `files.sources.Files`. Errors are OSError. Used by the Board and the interpreter.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import is_
from typing import Final

import xxhash

from ....core.domain import is_inside
from ....core.text import printable
from ....files.globs import Glob, Globbing
from ....files.manifest import CUT
from ....files.pins import path_of
from ....files.safe_open import is_own, opened_directory, opened_file, pinned_stat
from ....files.search.globs import alternatives, read_glob
from ....files.search.ignore_files import IGNORE_FILES, REPOSITORY, VERSION_CONTROL, IgnoreFiles, Place, place_of
from ....files.sources import FileStamp
from ....files.spellings import composed

MOST_FILES: Final = 100_000
_RACY_NS: Final = 50_000_000
_WIDTH: Final = 4
"""The number of integers that identify a file's version: times of modification and change, size, inode."""
_KEPT: Final = 32
"""The most globs whose directories are cached."""
_SIGNED: Final = 1 << 63
_MAGIC: Final = re.compile(r"[*?\[{\\]")
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Bound here, because statements may replace them.
_open, _close, _fstat, _stat, _scandir, _readlink = os.open, os.close, os.fstat, os.stat, os.scandir, os.readlink
Stamp = tuple[int, int, int]
_ESCAPED: Final = re.compile(r"([,}\]])")


class Globs:
    """Makes globs for one board. `roots` are the absolute directories of the workspace; relative paths start from the
    first."""

    def __init__(self, globbing: Globbing, roots: tuple[str, ...]) -> None:
        self._globbing = globbing
        self._roots = roots

    def glob(self, text: str) -> Glob:
        """Make the glob of a text in a statement.

        Raises:
            ValueError: it leads out of the workspace, or is not a glob; the message says which.
        """
        root, below = self._place(text)
        pattern = below if _MAGIC.search(below) else _of_path(below)
        try:
            read_glob(pattern)
        except ValueError as error:
            raise ValueError(f"group({text!r}): {error}") from None
        return self.known(root, pattern, printable(text))

    def known(self, root: str, pattern: str, text: str) -> Glob:
        """Make a glob from its parts."""
        return Glob(self._globbing, root, pattern, text)

    def _place(self, text: str) -> tuple[str, str]:
        """The root, and the path or pattern relative to it."""
        expanded = os.path.expanduser(text)
        if "\0" in expanded or not expanded.strip() or ".." in expanded.split("/"):
            raise ValueError(f"group({text!r}): give a path or a glob of the workspace, without '..'")
        if not expanded.startswith("/"):
            return self._roots[0], expanded
        root = next((root for root in self._roots if is_inside(expanded, (root,))), None)
        if root is None:
            named = ", ".join(self._roots)
            raise ValueError(
                f"group({text!r}): a group can only have files of the workspace, {named}; view() shows other files"
            )
        return root, expanded[len(root.rstrip("/")) + 1 :] or "**"


def _of_path(path: str) -> str:
    """A pattern for the file of that path, or all files below the directory of that path."""
    path = "/".join(segment for segment in path.split("/") if segment not in ("", "."))
    if not path:
        return "**"
    above, _, name = path.rpartition("/")
    name = _ESCAPED.sub(r"\\\1", name)
    return f"{above or '.'}/{{{name},{name}/**}}"


class DirectTrees:
    """The globs of one board, straight from the operating system; `now` is in seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._trees: dict[tuple[str, str], Tree] = {}

    def listing(self, root: str, pattern: str) -> str:
        """As `files.sources.Trees.listing`."""
        tree = self._trees.pop((root, pattern), None) or Tree(root, pattern, self._now)
        self._trees[root, pattern] = tree
        while len(self._trees) > _KEPT:
            del self._trees[next(iter(self._trees))]
        return tree.listing()


class Tree:
    """One glob below one root of the workspace.

    Args:
        root: absolute; the glob's paths are relative to it.
        pattern: as for `find`.
        now: returns seconds since the epoch.
    """

    def __init__(self, root: str, pattern: str, now: Callable[[], float]) -> None:
        glob = read_glob(pattern)
        self._root = root
        self._now = now
        self._wanted = re.compile(glob.expression)
        self._reaches = tuple(map(_reach, alternatives(composed(pattern))))
        self._base = _common(reach.literal for reach in self._reaches)
        self._above = IgnoreFiles(in_repository=False)
        self._place: Place | None = None
        self._known: dict[str, _Directory] = {}
        self._texts: list[str] = []
        self._text = ""
        self._is_cut = False

    def listing(self) -> str:
        """The manifest of the present files; the same object as before if nothing changed.

        Raises:
            OSError: the root cannot be entered.
        """
        try:
            with opened_directory(self._root, (self._root,)) as root:
                found = self._found(root)
        except (FileNotFoundError, NotADirectoryError):
            found = {}
        texts = [directory.text for directory in found.values()]
        if len(found) == len(self._known) and all(map(is_, texts, self._texts)):
            return self._text
        self._known, self._texts = found, texts
        self._text = "".join(texts) + (f"{CUT}\n" if self._is_cut else "")
        return self._text

    def _found(self, root: int) -> dict[str, _Directory]:
        found: dict[str, _Directory] = {}
        left = MOST_FILES
        self._is_cut = False
        for path, directory in self._walk(root):
            found[path] = directory
            left -= len(directory.files)
            if left < 0:
                self._is_cut = True
                found[path] = _shortened(directory, path, left)
                break
        return found

    def _walk(self, root: int) -> Iterator[tuple[str, _Directory]]:
        place = path_of(root).rstrip("/")
        waiting = [(self._base, self._rules_above())]
        while waiting:
            path, above = waiting.pop()
            try:
                descriptor = _open(path or ".", _FLAGS, dir_fd=root)
            except OSError:
                continue  # removed meanwhile, or unreadable: the group has none of its files
            try:
                here = path_of(descriptor)
                if not is_inside(here, (place,)) or is_own(here, place):
                    continue
                directory = self._directory(descriptor, path, above)
                _update(directory, descriptor, path)
            except OSError:
                continue
            finally:
                _close(descriptor)
            yield path, directory
            waiting += [(f"{path}{name}/", directory.rules) for name in reversed(directory.directories)]

    def _rules_above(self) -> IgnoreFiles:
        """The rules of the directories above the start of the walk that apply there."""
        base = os.path.join(self._root, self._base)
        place = place_of(base, (self._root,))
        if place != self._place or not self._above.is_current():
            self._place, self._above = place, IgnoreFiles(in_repository=place.in_repository)
            for each in place.above:
                self._above = self._above.within(each, below=f"{os.path.relpath(base, each)}/")
        return self._above

    def _directory(self, descriptor: int, path: str, above: IgnoreFiles) -> _Directory:
        state = _fstat(descriptor)
        stamp = (state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        known = self._known.get(path)
        if known is not None and (known.above is not above or not known.rules.is_current(above)):
            known = None
        if known is not None and known.stamp == stamp:
            return known
        with _scandir(descriptor) as entries:
            names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if _is_ours(entry))
        rules = self._rules(path, above, known, {name for name, _ in names})
        files, directories = self._judged(path, rules, names)
        # Because such a young directory may change again without a new stamp.
        is_young = abs(self._now() * 1e9 - max(stamp[:2])) < _RACY_NS
        return _Directory(None if is_young else stamp, above, rules, files, directories)

    def _rules(self, path: str, above: IgnoreFiles, known: _Directory | None, names: set[str]) -> IgnoreFiles:
        """The rules that apply in a directory. Known ones that are current are reused, because cached directories are
        valid only for the same object."""
        has_own = path == self._base or not names.isdisjoint((*IGNORE_FILES, REPOSITORY))
        if known is not None and (known.rules is not above) == has_own:
            return known.rules
        return above.within(os.path.join(self._root, path), prefix=path[len(self._base) :]) if has_own else above

    def _judged(
        self, path: str, rules: IgnoreFiles, names: Sequence[tuple[str, bool]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The files that the glob matches and the directories to enter."""
        inner = path[len(self._base) :]
        files: list[str] = []
        directories: list[str] = []
        for name, is_directory in names:
            if name in VERSION_CONTROL:
                continue
            if is_directory:
                below = f"{path}{name}/"
                if any(reach.enters(composed(below)) for reach in self._reaches) and not rules.leave_out(
                    below[len(self._base) :], f"{name}/"
                ):
                    directories.append(name)
            elif self._wanted.fullmatch(composed(path + name)) and not rules.leave_out(inner + name, name):
                files.append(name)
        return tuple(files), tuple(directories)


@dataclass(slots=True)
class _Directory:
    """A directory when it was read. `files` are the names that match the glob; `stats` and `text` are about these."""

    stamp: Stamp | None
    above: IgnoreFiles
    rules: IgnoreFiles
    files: tuple[str, ...]
    directories: tuple[str, ...]
    stats: array[int] = field(default_factory=lambda: array("q"))
    text: str = ""


def _update(directory: _Directory, descriptor: int, path: str) -> None:
    """Stat the files, and make their lines again if anything changed. A file that is gone has only zeros."""
    numbers: list[int] = []
    append = numbers.append
    for name in directory.files:
        try:
            state = _stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            numbers += (0, 0, 0, 0)
            continue
        append(state.st_mtime_ns)
        append(state.st_ctime_ns)
        append(state.st_size)
        append(state.st_ino)
    try:
        stats = array("q", numbers)
    except OverflowError:
        stats = array("q", ((number + _SIGNED) % (2 * _SIGNED) - _SIGNED for number in numbers))
    if stats != directory.stats:
        directory.stats = stats
        directory.text = _text(directory, path)


def _text(directory: _Directory, path: str) -> str:
    raw = directory.stats.tobytes()
    size = len(raw) // max(len(directory.files), 1)
    lines: list[str] = []
    for at, name in enumerate(directory.files):
        mark = xxhash.xxh3_64_hexdigest(raw[at * size : (at + 1) * size])
        lines.append(f"{mark} {directory.stats[at * _WIDTH + 2]} {path}{name}\n")
    return "".join(lines)


def _shortened(directory: _Directory, path: str, left: int) -> _Directory:
    files = directory.files[:left]
    stats = directory.stats[: len(files) * _WIDTH]
    short = _Directory(None, directory.above, directory.rules, files, (), stats)
    short.text = _text(short, path)
    return short


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """Whether it is a regular file or directory, with a name that fits into a line of a manifest. Reading anything else
    might block."""
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        return False
    return "\n" not in entry.name and (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False))


@dataclass(frozen=True, slots=True)
class _Reach:
    """Where files that match one alternative of a glob may be: below the directory `literal`, which it names without
    wildcards, and at most `levels` directories deeper; None for any number."""

    literal: str
    levels: int | None

    def enters(self, path: str) -> bool:
        """Whether a directory, or one below it, may have such files. Its path ends with a slash."""
        if self.literal.startswith(path):
            return True
        return path.startswith(self.literal) and (
            self.levels is None or path.count("/", len(self.literal)) <= self.levels
        )


def _common(directories: Iterable[str]) -> str:
    """The deepest directory that contains, or is, each of these."""
    first, *others = ([*each.split("/")[:-1]] for each in directories)
    while any(other[: len(first)] != first for other in others):
        first.pop()
    return "".join(f"{segment}/" for segment in first)


def _reach(alternative: str) -> _Reach:
    if "/" not in alternative:
        return _Reach("", None)
    segments = [segment for segment in alternative.split("/")[:-1] if segment not in ("", ".")]
    named = next((at for at, segment in enumerate(segments) if _MAGIC.search(segment)), len(segments))
    is_deep = "**" in segments or alternative.endswith(("/", "/**"))
    literal = "".join(f"{segment}/" for segment in segments[:named])
    return _Reach(literal, None if is_deep else len(segments) - named)


# --- files ------------------------------------------------------------------------------------------------------------


class DirectFiles:
    """Reads files, with all rights of the process; with `roots`, absolute directories, only files below them."""

    def __init__(self, roots: tuple[str, ...] | None = None) -> None:
        self._roots = roots

    def stamp(self, path: str) -> FileStamp:
        return _stamp(os.stat(path) if self._roots is None else pinned_stat(path, self._roots))

    def read(self, path: str, limit: int) -> bytes:
        with opened_file(path, self._roots) as file:
            return file.read(limit)

    @contextmanager
    def opened(self, path: str) -> Generator[_DirectFile]:
        with opened_file(path, self._roots) as file:
            yield _DirectFile(file.fileno())

    def entries(self, path: str, limit: int) -> list[str]:
        if self._roots is not None:
            with opened_directory(path, self._roots) as directory:
                return _names(directory, limit)
        return _names(path, limit)


class _DirectFile:
    """`files.sources.OpenFile` on a descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor

    def stamp(self) -> FileStamp:
        return _stamp(os.fstat(self._descriptor))

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)


def _stamp(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _names(directory: str | int, limit: int) -> list[str]:
    with os.scandir(directory) as found:
        return [f"{entry.name}/" if _is_directory(entry) else entry.name for entry in islice(found, limit)]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
