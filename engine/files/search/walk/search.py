"""Our own search in the working directory, which respects ignore files.

`search` is called by `program`, and prints what `files.search.commands` reads. A file is read in blocks that end with a
line, so a large one takes the memory of a block and its longest line. First a block as a whole is searched: a line that
matches alone also matches in its block, since `^`, `$` and word boundaries mean the same beside a newline.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from .dialect import NotInDialectError, compiled

BLOCK: Final = 8 << 20
LONGEST: Final = 64 << 20
"""Characters after which a line is searched in parts, to limit memory."""
_MARKS: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be", b"\xef\xbb\xbf": "utf-8"}
"""Byte order marks and their encodings; all other files are UTF-8."""


class Searcher:
    """Searches for one expression, in many lines at once if `by_blocks`.

    `context` lines on either side of each match are printed too, and at most `longest` bytes of each line.
    """

    def __init__(self, expression: Any, by_blocks: bool, context: int, longest: int) -> None:
        self._matches = expression.search
        self._by_blocks = by_blocks
        self._context = context
        self._longest = longest

    def search(self, file: BinaryIO) -> bytes:
        """Return the output for a file.

        Returns None for a file with a NUL, which is not text. Raises OSError.
        """
        found = _Printed(self._context, self._longest)
        first = 1
        for block in _blocks(file):
            if "\0" in block:
                return b""
            text = block.replace("\r\n", "\n")
            lines = text.count("\n")
            if found.expects_more or not self._by_blocks or self._matches(text):
                for number, line in enumerate(text.removesuffix("\n").split("\n"), first):
                    found.add(number, line, bool(self._matches(line)))
            elif self._context:
                last = text.removesuffix("\n").rsplit("\n", self._context)[-self._context :]
                for number, line in enumerate(last, first + lines + (not text.endswith("\n")) - len(last)):
                    found.add(number, line, matches=False)
            first += lines
        return b"".join(found.rows)


class _Printed:
    """The rows of a file: matches and the lines beside them."""

    def __init__(self, context: int, longest: int) -> None:
        self.rows: list[bytes] = []
        self._context = context
        self._longest = longest
        self._before: deque[tuple[int, str]] = deque(maxlen=context)
        self._due = 0
        self._last = 0

    @property
    def expects_more(self) -> bool:
        """Whether the next line is printed even without a match."""
        return self._due > 0

    def add(self, number: int, line: str, matches: bool) -> None:
        if number == self._last:
            return  # a later part of a line
        if matches:
            for earlier, text in self._before:
                self._print(earlier, "-", text)
            self._before.clear()
            self._print(number, ":", line)
            self._due = self._context
        elif self._due:
            self._print(number, "-", line)
            self._due -= 1
        else:
            self._before.append((number, line))

    def _print(self, number: int, mark: str, line: str) -> None:
        if self._context and self._last and number > self._last + 1:
            self.rows.append(b"--\n")
        self._last = number
        # Cut in characters first, because a large file may be one line.
        text = line[: self._longest].encode("utf-8", "surrogateescape")
        self.rows.append(f"{number}{mark}".encode() + text + b"\n")


def _blocks(file: BinaryIO) -> Iterator[str]:
    """Yield the text in pieces that end with a newline, except the last and parts of very long lines.

    Bytes that are not UTF-8 become surrogates. A piece with a NUL is the last one.
    """
    data = file.read(BLOCK)
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    coding = _MARKS.get(mark, "utf-8")
    decoder = getincrementaldecoder(coding)("surrogateescape" if coding == "utf-8" else "replace")
    text = decoder.decode(data[len(mark) :])
    rest = ""
    while data:
        whole, newline, rest = (rest + text).rpartition("\n")
        if "\0" in text:
            yield "\0"
            return
        if newline:
            yield whole + newline
        if len(rest) > LONGEST:
            yield rest
            rest = ""
        data = file.read(BLOCK)
        text = decoder.decode(data)
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest


# --- ignore files ----------------------------------------------------------------------------------------------------


MAX_BYTES: Final = 1 << 20
"""Bytes of an ignore file that are read; real ones are smaller."""
_REPOSITORY: Final = ".git"
_OF_GIT: Final = frozenset((".gitignore", "exclude"))
_BELOW: Final = (("(?:(?P<ps_d>/)|$)", r"/?\Z"), ("(?P<ps_d>/)", r"/\Z"))
"""pathspec matches files below a directory too. Here the path is an entry's; a directory's ends in a slash."""

Lines = tuple[tuple[re.Pattern[str], bool], ...]
"""The lines of a file and whether each excludes; last line first."""


@dataclass(frozen=True, slots=True)
class Level:
    """A directory's rules.

    `below` leads from there to the start of the search, or is "" for directories below that;

    `prefix` leads from the start to the directory.
    """

    rules: dict[str, Lines]
    is_repository: bool
    below: str = ""
    prefix: str = ""


class Rules:
    """The ignore files of a directory and of all above it, outermost first.

    Each entry is judged by its own name and path, because excluded directories are not entered. In one file the last
    matching line decides; among files of one kind the innermost that matches; among kinds the first of `files`, at any
    level. An inner repository starts again with git's kinds. So do git (`gitignore(5)`) and ripgrep. `pathspec` parses
    the lines.

    Args:
        files: names of ignore files, in the order of precedence.
        in_repository: whether git's rules are those of repositories, and end where one does.
    """

    def __init__(self, files: tuple[str, ...], in_repository: bool, levels: tuple[Level, ...] = ()) -> None:
        self._files = files
        self._in_repository = in_repository
        self._levels = levels

    def within(self, directory: str, *, below: str = "", prefix: str = "") -> Rules:
        """Add the rules of a subdirectory; see `Level`.

        Unreadable files have no rules.
        """
        rules = {file: _lines(os.path.join(directory, file)) for file in self._files}
        repository = os.path.join(directory, _REPOSITORY)
        begins = self._in_repository and os.path.exists(repository)
        shared = _common_directory(repository) if begins else repository
        rules["exclude"] = _lines(os.path.join(shared, "info", "exclude"))
        rules = {kind: lines for kind, lines in rules.items() if lines}
        if not rules and not begins:
            return self
        level = Level(rules, begins, below, prefix)
        return Rules(self._files, self._in_repository, (*self._levels, level))

    def leave_out(self, path: str) -> bool:
        """Return whether an entry is excluded.

        `path` is relative to the start, a directory's ends in a slash.
        """
        for kind in (*self._files, "exclude"):
            decision = self._decision(kind, path)
            if decision is not None:
                return decision
        return False

    def _decision(self, kind: str, path: str) -> bool | None:
        for level in reversed(self._levels):
            lines = level.rules.get(kind)
            if lines:
                own = level.below + path if level.below else path[len(level.prefix) :]
                for expression, left_out in lines:
                    if expression.search(own):
                        return left_out
            if level.is_repository and kind in _OF_GIT:
                return None
        return None


def _common_directory(repository: str) -> str:
    """Return the directory that git's work trees share: a `.git` file names its own directory, which names it."""
    if os.path.isdir(repository):
        return repository
    own = _read(repository).partition("gitdir:")[2].strip()
    own = os.path.join(os.path.dirname(repository), own)
    return os.path.join(own, _read(os.path.join(own, "commondir")).strip() or ".")


def _lines(path: str) -> Lines:
    text = _read(path)
    read = (_line(line.removesuffix("\r")) for line in text.removeprefix("\ufeff").split("\n")) if text else ()
    return tuple(line for line in read if line is not None)[::-1]


def _line(line: str) -> tuple[re.Pattern[str], bool] | None:
    try:
        expression, left_out = GitIgnoreSpecPattern.pattern_to_regex(line)
    except GitIgnorePatternError:
        return None
    if expression is None or left_out is None:
        return None
    for theirs, ours in _BELOW:
        expression = expression.replace(theirs, ours)
    # `a/**` matches everything below `a`, but not `a`.
    expression += "." if expression.endswith("/") else ""
    try:
        return re.compile(expression, re.DOTALL), left_out
    except re.error:
        return None


def _read(path: str) -> str:
    # Without blocking, and regular files only: a pipe may have the name too.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return file.read(MAX_BYTES).decode("utf-8", "surrogateescape")


# --- the walk --------------------------------------------------------------------------------------------------------


class Tree:
    """A walk that follows no link, and skips what the rules exclude, and the names and `/`-paths in `skipped`.

    Args:
        wanted: matches the whole path of each wanted file; None for all.
        say: takes a message about each unreadable directory; the walk continues.
    """

    def __init__(
        self, rules: Rules, wanted: re.Pattern[str] | None, skipped: frozenset[str], say: Callable[[str], None]
    ) -> None:
        self._rules = rules
        self._wanted = wanted
        self._skipped = skipped
        self._say = say
        self.failed = False
        self.met_any = False
        """Whether the rules leave any file, wanted or not."""

    def files(self) -> Iterator[str]:
        """Yield paths relative to the working directory."""
        open_directories = [("", self._rules)]
        while open_directories:
            directory, rules = open_directories.pop()
            rules = rules.within(directory or ".", prefix=directory)
            below: list[tuple[str, Rules]] = []
            for name, is_directory in self._entries(directory):
                path = directory + name
                if is_directory:
                    if not rules.leave_out(path + "/"):
                        below.append((path + "/", rules))
                elif self._wanted is None or self._wanted.fullmatch(path):
                    if not rules.leave_out(path):
                        self.met_any = True
                        yield path
                elif not self.met_any:
                    self.met_any = not rules.leave_out(path)
            open_directories += reversed(below)

    def _entries(self, directory: str) -> list[tuple[str, bool]]:
        """Return files and directories by name.

        Others could only block the search or lead outside.
        """
        try:
            descriptor = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            self.report(directory, error)
            return []
        try:
            with os.scandir(descriptor) as entries:
                return sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if not self._skipped.intersection((entry.name, f"/{directory}{entry.name}"))
                    and (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False))
                )
        except OSError as error:
            self.report(directory, error)
            return []
        finally:
            os.close(descriptor)

    def report(self, path: str, error: OSError) -> None:
        """Report what could not be read, like ripgrep."""
        self.failed = True
        self._say(f"rg: ./{path.removesuffix('/')}: {error.strerror} (os error {error.errno})")


@contextlib.contextmanager
def opened(path: str) -> Generator[BinaryIO]:
    """Open a regular file.

    Raises OSError for anything else, including a link that replaced it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield file  # pyright: ignore[reportReturnType] -- unbuffered, which `BinaryIO` does not tell apart


# --- the search ------------------------------------------------------------------------------------------------------


FOUND: Final = 0
NOTHING: Final = 1
FAILED: Final = 2


def search(job: dict[str, Any], output: BinaryIO, say: Callable[[str], None]) -> int:
    """Do the job of `files.search.commands`; return the exit code.

    Args:
        say: takes messages about unreadable files, and about an invalid expression.
    """
    tree = _tree(job, say)
    code = _list(tree, output) if job["pattern"] is None else _search(job, tree, output, say)
    if code == NOTHING and job["above"] and job["name"] is None and not tree.met_any:
        say(job["all_left_out"])
    return code


def _search(job: dict[str, Any], tree: Tree, output: BinaryIO, say: Callable[[str], None]) -> int:
    try:
        searcher = Searcher(*compiled(job["pattern"]), job["context"], job["longest_line"])
    except NotInDialectError as error:
        say(f"regex parse error:\n    {job['pattern']}\nerror: {error}")
        return FAILED
    paths = tree.files() if job["name"] is None else iter((job["name"],))
    found = False
    for path in paths:
        try:
            with opened(path) as file:
                printed = searcher.search(file)
        except OSError as error:
            tree.report(path, error)
            continue
        if printed:
            output.write((b"\n" if found else b"") + b"./" + os.fsencode(path) + b"\0" + printed)
            # Matches count even if the time is up.
            output.flush()
            found = True
    return _code(tree, found)


def _list(tree: Tree, output: BinaryIO) -> int:
    found = False
    for path in tree.files():
        output.write(b"./" + os.fsencode(path) + b"\0")
        found = True
    return _code(tree, found)


def _code(tree: Tree, found: bool) -> int:
    if tree.failed:
        return FAILED
    return FOUND if found else NOTHING


def _tree(job: dict[str, Any], say: Callable[[str], None]) -> Tree:
    here = os.getcwd()
    rules = Rules(tuple(job["ignore_files"]), job["in_repository"])
    for each in job["above"]:
        rules = rules.within(each, below=os.path.relpath(here, each) + "/")
    wanted = None if job["expression"] is None else re.compile(job["expression"])
    return Tree(rules, wanted, frozenset(job["skipped"]), say)
