"""What the configuration of a git repository names that git runs, or reads as more configuration.

Any key may name a program (`pager.log`, `interactive.diffFilter`), so all values count but those of keys that name
data. A value is read as words, and a word is the path of a file if there is one, or if it looks like one. Included
files are read in their turn, and so is what the user has for all repositories. Must not know what is done about it.
Called by `protected`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import deque
from collections.abc import Iterator
from typing import Final

from .paths import is_inside

CONFIGURATIONS: Final = ("config", "config.worktree")
COMMON_DIR: Final = "commondir"
_OF_USER: Final = ("/etc/gitconfig", "~/.gitconfig", "~/.config/git/config")
_BYTES: Final = 1 << 16
_MOST_FILES: Final = 30
"""Configurations that are read, with those that they include."""
_VALUE: Final = re.compile(r"(?m)(?:^|\])[ \t]*([\w-]+)[ \t]*=[ \t]*(.*?)[ \t]*$")
"""A line of a configuration, also behind the head of its section."""
_CONTINUED: Final = re.compile(r"\\\r?\n")
_INCLUDED: Final = "path"
_DIRECTORIES: Final = ("hookspath", _INCLUDED)
"""Keys that name a directory, or a file, whether there is one or not."""
_DATA: Final = frozenset(
    (
        *("url", "pushurl", "fetch", "push", "merge", "remote", "pushremote", "name", "email", "excludesfile"),
        *("attributesfile", "mailmap", "template", "blob", "worktree", "insteadof", "pushinsteadof", "file"),
    )
)


def named_by(git: str, top: str, roots: tuple[str, ...]) -> Iterator[str]:
    """Real places in the roots that git runs programs or takes configuration from because they are named.

    Args:
        git: the absolute path of a repository, or of a file that leads to one.
        top: the directory that its work tree begins at.
        roots: absolute directories, links resolved.
    """
    waiting = deque(map(os.path.expanduser, _OF_USER))
    waiting += (os.path.join(folder, name) for folder in _configured(git, top) for name in CONFIGURATIONS)
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_FILES:
        path = waiting.popleft()
        if path in seen:
            continue
        seen.add(path)
        for key, value in _values(path):
            for word in _words(value):
                place = os.path.realpath(os.path.join(os.path.dirname(path) if key == _INCLUDED else top, word))
                if key == _INCLUDED:
                    waiting.append(place)
                is_named = key in _DIRECTORIES or _may_be_program(place, word)
                if is_named and place not in roots and is_inside(place, roots):
                    yield place


def state_of(git: str) -> object:
    """What differs where the configuration of a repository, or the user's own, has changed; not an included one."""
    own = (os.path.join(git, name) for name in (*CONFIGURATIONS, COMMON_DIR))
    return tuple(map(_state, (*map(os.path.expanduser, _OF_USER), *own)))


def beginning_of(path: str) -> str:
    """The beginning of a file; empty where there is none, or something else."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_BYTES)
    except (OSError, ValueError):
        return ""


def _state(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _configured(git: str, top: str) -> Iterator[str]:
    """The directories with the configuration of a work tree: its own, and the one that it shares with others."""
    folder = git
    if os.path.isfile(git):
        folder = os.path.join(top, beginning_of(git).partition("gitdir:")[2].strip())
    yield folder
    common = beginning_of(os.path.join(folder, COMMON_DIR)).strip()
    if common:
        yield os.path.join(folder, common)


def _values(path: str) -> Iterator[tuple[str, str]]:
    for key, value in _VALUE.findall(_CONTINUED.sub("", beginning_of(path))):
        if key.lower() not in _DATA:
            yield key.lower(), value


def _words(value: str) -> Iterator[str]:
    try:
        words = shlex.split(value.strip('"').lstrip("!"), comments=True)
    except ValueError:
        words = value.replace('"', " ").split()
    return (os.path.expanduser(word) for word in words if "\0" not in word)


def _may_be_program(place: str, word: str) -> bool:
    """Whether a word of a command may be one: what is a file, and what looks like the path of one."""
    return os.path.isfile(place) or ("/" in word and not os.path.isdir(place))
