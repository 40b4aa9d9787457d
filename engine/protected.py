"""Files that other programs run by themselves: hooks and configuration of git, tasks of editors, and their like.

Whoever writes one of them makes a program of somebody else start theirs, outside the sandbox. So one table says which
they are, for both who enforce it: the kernel, which mounts them read-only for statements (`Protection.places`), and the
host, which asks before it writes one for a statement (`Protection.why`). Both look at real places, links resolved, and
compare names without case, because file systems may. Asks the file system, for as long as that takes milliseconds.
Must not know who is asked. Used by `tools.workspace` and `sessions.confining`, and by a worker for its own writes.

A repository is known by its name (`.git`) or by what is in it (a bare one, one that a `.git` file leads to). A write
that would make a directory one is protected, too. What a configuration names (hooks, included files, programs) is
protected as that says now. No list is complete: see docs/sandbox.md. A little over 300 lines, because the table and
both ways to read it belong together.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import Final, NamedTuple

from .paths import is_inside


class Row(NamedTuple):
    """A name of a file or directory, with all that is in it; `runs` says which program runs it when."""

    name: str
    runs: str


ROWS: Final[tuple[Row, ...]] = (
    Row(".envrc", "direnv runs it in each shell that enters the directory"),
    Row(".mise.toml", "mise runs its hooks in each shell that enters the directory"),
    Row("mise.toml", "mise runs its hooks in each shell that enters the directory"),
    Row(".vscode", "VS Code and its relatives take programs and tasks from it when they open the directory"),
    Row(".idea", "JetBrains IDEs take run configurations and tools from it when they open the directory"),
    Row(".zed", "Zed takes tasks and language servers from it when it opens the directory"),
    Row(".devcontainer", "editors run its commands when they open the directory in a container"),
    Row(".exrc", "Vim and Neovim run it when they start in the directory, where `exrc` is set"),
    Row(".nvimrc", "Neovim runs it when it starts in the directory, where `exrc` is set"),
    Row(".nvim.lua", "Neovim runs it when it starts in the directory, where `exrc` is set"),
    Row(".dir-locals.el", "Emacs evaluates it when it opens a file in the directory"),
    Row(".gdbinit", "gdb runs it when it starts in the directory"),
    Row(".lldbinit", "lldb runs it when it starts in the directory"),
    Row(".husky", "git runs its scripts as hooks"),
    Row(".githooks", "git runs its scripts as hooks, where `core.hooksPath` names it"),
    Row(".pre-commit-config.yaml", "pre-commit runs the programs that it names at each commit"),
    Row("lefthook.yml", "lefthook runs the programs that it names as hooks of git"),
    Row(".lefthook.yml", "lefthook runs the programs that it names as hooks of git"),
    Row(".mcp.json", "coding agents start the servers that it names when they open the directory"),
    Row(".claude", "Claude Code runs the hooks that its settings name"),
    Row(".cursor", "Cursor starts the servers and hooks that it names"),
    Row(".gemini", "Gemini CLI starts the servers that its settings name"),
    Row(".codex", "Codex starts the servers that its settings name"),
)
_BY_NAME: Final = {row.name.casefold(): row.runs for row in ROWS}
_WORKSPACE_SUFFIX: Final = ".code-workspace"
_OF_EDITORS: Final = "VS Code takes tasks and programs from it when it is opened"

_GIT: Final = ".git"
_HEAD, _OBJECTS, _REFS, _COMMON_DIR = "head", "objects", "refs", "commondir"
_OF_REPOSITORIES: Final = ("HEAD", "objects", "refs", "commondir")
_KERNEL_HELD: Final = ("config", "config.worktree", "hooks", _COMMON_DIR)
"""Of a repository, what no plain `git add` or `git commit` changes."""
_GIT_RUNS: Final = {
    "config": "git runs programs that it names, also for `git status`",
    "config.worktree": "git runs programs that it names, also for `git status`",
    "hooks": "git runs the programs in it",
    _COMMON_DIR: "it leads git to another configuration, which names programs to run",
    "gitdir": "it leads git to another work tree",
    "rebase-merge": "`git rebase --continue` runs the commands in it",
    "rebase-apply": "`git rebase --continue` runs the commands in it",
    "sequencer": "`git cherry-pick --continue` follows it",
}
_GIT_DATA: Final = (_OBJECTS, _REFS, "logs")
"""Directories of a repository in which names mean nothing: a branch may be called `config`."""
_GIT_ITSELF: Final = "git takes its configuration and hooks from where it leads"
_NEW_REPOSITORY: Final = "it makes the directory a repository, from which git takes configuration and hooks"
_NAMED: Final = "git runs it or reads it as configuration, because the configuration of the repository names it"

_MOST: Final = 50
"""Repositories whose places are named: each costs whoever mounts them some time."""
_LOOKED_AT: Final = 1_000
"""Directories, the ones near the top first: whatever is there, the looking ends."""
_CONFIG_BYTES: Final = 1 << 16
_SHOWN: Final = 20
"""Files of a directory that appeared."""
_VALUE: Final = re.compile(r"(?m)(?:^|\])[ \t]*([\w-]+)[ \t]*=[ \t]*(.*?)[ \t]*$")
"""A line of a configuration, also behind the head of its section."""
_RUNNING_KEYS: Final = frozenset(
    (
        *("hookspath", "path", "fsmonitor", "sshcommand", "askpass", "editor", "pager", "helper", "clean", "smudge"),
        *("process", "textconv", "driver", "program", "cmd", "command", "external"),
    )
)


class Protection:
    """What is protected in the directories of a session. `roots` are absolute, links resolved."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._found: tuple[str, ...] = ()
        """The places when they were last looked for."""
        self._found_marks: Mapping[str, tuple[int, int] | None] | None = None

    def why(self, path: str) -> str:
        """Why the file or directory at a real absolute path is protected, be it there or not; empty where it is not.

        The answer continues the sentence "it is protected, because ..." and names no path.
        """
        return (
            self.why_by_name(path)
            or self._why_in_repository(path)
            or (_NAMED if any(is_inside(path, (place,)) for place in self._named_above(path)) else "")
        )

    def why_by_name(self, path: str) -> str:
        """The same as far as the path alone tells, below the directory of the session that it is in: pure."""
        root = max((each for each in self._roots if is_inside(path, (each,))), key=len, default="/")
        return _why_by_name(path[len(root) :].strip("/").casefold().split("/"))

    def places(self) -> tuple[str, ...]:
        """What the kernel can mount read-only: places that are there now, and those of a root's own repository."""
        found: dict[str, None] = {}
        for root in self._roots:
            git = os.path.join(root, _GIT)
            for repository in (git, *islice((each for each in _repositories(root) if each != git), _MOST)):
                found.update(dict.fromkeys(_held_places(repository, self._roots)))
            found.update(dict.fromkeys(_rows_at(root)))
        self._found = tuple(found)
        self._found_marks = self.marks()
        return self._found

    def current_places(self) -> tuple[str, ...]:
        """The same without a search where nothing at the known places has changed since the last one."""
        return self._found if self._found_marks == self.marks() else self.places()

    def appeared(self, before: Mapping[str, tuple[int, int] | None]) -> Iterator[str]:
        """The files that are where nothing was when these were the `marks`; of a directory some of those in it."""
        for path, mark in self.marks().items():
            if mark is not None and before.get(path) is None:
                yield from islice(_files_at(path), _SHOWN)

    def marks(self) -> Mapping[str, tuple[int, int] | None]:
        """Which file is at each place that was found, and where one may come to be; None for nothing.

        Where two such answers differ, `places` has to be asked again, and what the kernel held may be held no more.
        """
        usual = (os.path.join(root, row.name) for root in self._roots for row in ROWS)
        return {path: _identity(path) for path in (*self._found, *usual)}

    def _above(self, path: str) -> Iterator[str]:
        """The directories of a session above a path, the innermost first."""
        return (folder for folder in map(str, PurePath(path).parents) if is_inside(folder, self._roots))

    def _why_in_repository(self, path: str) -> str:
        for folder in self._above(path):
            below = path[len(folder.rstrip("/")) + 1 :].casefold().split("/")
            found = _names_in(folder)
            if _is_whole(found):
                if reason := _why_in_git(below):
                    return reason
            elif _is_whole(found | {below[0]}) and len(below) == 1:
                return _NEW_REPOSITORY
        return ""

    def _named_above(self, path: str) -> Iterator[str]:
        for folder in self._above(path):
            git = os.path.join(folder, _GIT)
            if os.path.lexists(git):
                yield from _named_by(git, folder, self._roots)


def _files_at(path: str) -> Iterator[str]:
    if not os.path.isdir(path) or os.path.islink(path):
        yield path
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in sorted(names))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_whole(names: frozenset[str]) -> bool:
    """Whether git takes a directory with these names for a repository."""
    return _HEAD in names and (_COMMON_DIR in names or {_OBJECTS, _REFS} <= names)


def _names_in(folder: str) -> frozenset[str]:
    """Those that make a directory a repository, as far as they are there."""
    return frozenset(name.casefold() for name in _OF_REPOSITORIES if os.path.lexists(os.path.join(folder, name)))


# --- by name ----------------------------------------------------------------------------------------------------------


def _why_by_name(parts: list[str]) -> str:
    for number, part in enumerate(parts):
        if part == _GIT and (reason := _why_in_git(parts[number + 1 :])):
            return reason
        if part in _BY_NAME:
            return _BY_NAME[part]
    return _OF_EDITORS if parts[-1].endswith(_WORKSPACE_SUFFIX) else ""


def _why_in_git(below: list[str]) -> str:
    """Of what is below a repository, by the names on the way."""
    if not below:
        return _GIT_ITSELF
    if below[0] in _GIT_DATA:
        return ""
    return next((_GIT_RUNS[name] for name in below if name in _GIT_RUNS), "")


# --- on the disk ------------------------------------------------------------------------------------------------------


def _held_places(git: str, roots: tuple[str, ...]) -> Iterator[str]:
    if os.path.isfile(git):
        yield git
    else:
        yield from (os.path.join(git, name) for name in _KERNEL_HELD)
    top = os.path.dirname(git)
    if os.path.basename(git) == _GIT:
        yield from _named_by(git, top, roots)
        yield from _rows_at(top)


def _rows_at(folder: str) -> Iterator[str]:
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            if name.casefold() in _BY_NAME or name.casefold().endswith(_WORKSPACE_SUFFIX):
                yield os.path.join(folder, name)


def _repositories(root: str) -> Iterator[str]:
    """The `.git` of each work tree, what is there of submodules, and bare repositories."""
    for folder, names in _folders(root, leaves=(_GIT,)):
        git = os.path.join(folder, _GIT)
        if os.path.lexists(git):
            yield git
            yield from _submodules(os.path.join(git, "modules"))
        if _is_whole(names):
            yield folder


def _submodules(modules: str) -> Iterator[str]:
    """The repositories below a directory of them; their names may have slashes, and they may have submodules."""
    return (folder for folder, names in _folders(modules, leaves=(_OBJECTS, _REFS, "logs")) if _HEAD in names)


def _folders(top: str, leaves: tuple[str, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    """The directory and those below it, level by level, but for those of such a name and what is in them; each with
    the names in it, without case."""
    waiting = deque([top])
    for _ in range(_LOOKED_AT):
        if not waiting:
            return
        folder = waiting.popleft()
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError), os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        yield folder, frozenset(entry.name.casefold() for entry in entries)
        for entry in entries:
            with suppress(OSError):
                if entry.name not in leaves and entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _named_by(git: str, top: str, roots: tuple[str, ...]) -> Iterator[str]:
    """Places in the roots that the configuration of a repository names as hooks, includes or programs."""
    for folder in _configured(git, top):
        for name in _KERNEL_HELD[:2]:
            for key, value in _values(os.path.join(folder, name)):
                yield from _places_of(key, value, top, folder, roots)


def _configured(git: str, top: str) -> Iterator[str]:
    """The directories with the configuration of a work tree: its own, and the one that it shares with others."""
    folder = git
    if os.path.isfile(git):
        folder = os.path.join(top, _read(git).partition("gitdir:")[2].strip())
    yield folder
    common = _read(os.path.join(folder, _COMMON_DIR)).strip()
    if common:
        yield os.path.join(folder, common)


def _values(config: str) -> Iterator[tuple[str, str]]:
    for key, value in _VALUE.findall(_read(config)):
        if key.lower() in _RUNNING_KEYS or value.startswith(("!", '"!')):
            yield key.lower(), value


def _places_of(key: str, value: str, top: str, folder: str, roots: tuple[str, ...]) -> Iterator[str]:
    try:
        words = shlex.split(value.strip('"').lstrip("!"), comments=True)
    except ValueError:
        words = value.replace('"', " ").split()
    for word in words:
        place = os.path.realpath(os.path.join(folder if key == "path" else top, os.path.expanduser(word)))
        # A word of a command may be anything: what is a file, and what looks like the path of one.
        is_file = os.path.isfile(place) or ("/" in word and not os.path.isdir(place))
        if place not in roots and is_inside(place, roots) and (key in ("hookspath", "path") or is_file):
            yield place


def _read(path: str) -> str:
    """The beginning of a file; empty where there is none, or something else."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_CONFIG_BYTES)
    except OSError:
        return ""
