"""Which entries of a directory the ignore files leave out.

Each is decided by its own name and path, never by what lies above it, because what is left out is not entered. The last
line of a file that matches decides; of several files of one kind the innermost that says anything; of several kinds the
first of `files`, whatever its place. A repository within another begins anew with the kinds that are git's. So do git
(`gitignore(5)`) and ripgrep. The lines themselves are read by `pathspec`.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Final

from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MAX_BYTES: Final = 1 << 20
"""Of a file of rules; no project has a larger one."""
_REPOSITORY: Final = ".git"
_OF_GIT: Final = frozenset((".gitignore", "exclude"))
_BELOW: Final = (("(?:(?P<ps_d>/)|$)", r"/?\Z"), ("(?P<ps_d>/)", r"/\Z"))
"""pathspec matches what lies below a directory too. Here the path is that of an entry, a directory's with its slash."""

Lines = tuple[tuple[re.Pattern[str], bool], ...]
"""Each line of a file with whether what matches it is left out; the last line first."""


@dataclass(frozen=True, slots=True)
class Level:
    """What a directory says. `below` leads from there to the directory in which the search began, or "" for those that
    the search met; `prefix` leads from where it began to the directory."""

    rules: dict[str, Lines]
    is_repository: bool
    below: str = ""
    prefix: str = ""


class Rules:
    """The files of rules of a directory and of all above it, outermost first.

    Args:
        files: the names of such files, and of what they are overruled by before them.
        in_repository: whether git's rules are those of repositories, and end where one does.
    """

    def __init__(self, files: tuple[str, ...], in_repository: bool, levels: tuple[Level, ...] = ()) -> None:
        self._files = files
        self._in_repository = in_repository
        self._levels = levels

    def within(self, directory: str, *, below: str = "", prefix: str = "") -> Rules:
        """With those of a directory that lies in the last one; see `Level`. What cannot be read says nothing."""
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
        """Whether an entry is left out; `path` is relative to where the search began, a directory's ends in a slash."""
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
    """Where git keeps what all working trees share: a `.git` that is a file names its own directory, which names it."""
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
    # `a/**` is all that lies in `a`, but not `a` itself.
    expression += "." if expression.endswith("/") else ""
    try:
        return re.compile(expression, re.DOTALL), left_out
    except re.error:
        return None


def _read(path: str) -> str:
    # Without blocking, and nothing but a file: a pipe may have the name too.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return file.read(MAX_BYTES).decode("utf-8", "surrogateescape")
