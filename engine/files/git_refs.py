"""Where HEAD, the branches and the stash of a git repository are, and what a command has moved.

As `git_state`, it reads the repository's files and never starts git. Called by `session.working_tree`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ..core.text import printable
from .git_state import (
    BRANCH,
    HASH,
    PACKED_REFS_BYTES,
    SMALL_BYTES,
    common_directory,
    git_directory,
    text_of,
)
from .project import project_root

MOST_BRANCHES: Final = 200
"""Branches that are compared; of a repository with more, only the one that is checked out."""
MOST_MOVES: Final = 5
"""Moves that are named."""
_HEADS: Final = "refs/heads/"
_STASH: Final = "refs/stash"
_SHORT: Final = 7
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""Branches that need no quotes in a shell, and are no option."""


class GitRefs(NamedTuple):
    """`head` is the branch that is checked out, or the hash of a commit. `refs` are hashes by full names."""

    head: str
    refs: Mapping[str, str]


def git_refs(directory: str) -> GitRefs | None:
    """Return where the repository around an absolute directory is; None without one. Blocks."""
    try:
        git = git_directory(project_root(directory))
        head = text_of(os.path.join(git, "HEAD"), SMALL_BYTES)
    except OSError:
        return None
    on_branch, detached = BRANCH.fullmatch(head), HASH.fullmatch(head)
    if on_branch is None and detached is None:
        return None
    common = common_directory(git)
    names = list(_loose(common))
    packed = dict(_packed(common))
    if len({*names, *packed}) > MOST_BRANCHES:
        names = [_HEADS + on_branch[1]] if on_branch and ".." not in on_branch[1] else []
        packed = {name: digest for name, digest in packed.items() if name in (*names, _STASH)}
    read = {name: _hash_in(os.path.join(common, name)) for name in (*names, _STASH)}
    refs = packed | {name: digest for name, digest in read.items() if digest}
    return GitRefs(on_branch[1] if on_branch else head.strip(), refs)


def _loose(common: str) -> Iterator[str]:
    """Yield the full names of the branches with a file of their own, one more than MOST_BRANCHES at most."""
    count = 0
    for folder, _, files in os.walk(os.path.join(common, _HEADS)):
        for name in files:
            if count > MOST_BRANCHES:
                return
            count += 1
            yield os.path.relpath(os.path.join(folder, name), common)


def _packed(common: str) -> Iterator[tuple[str, str]]:
    try:
        lines = text_of(os.path.join(common, "packed-refs"), PACKED_REFS_BYTES).splitlines()
    except OSError:
        return
    for line in lines:
        digest, _, name = line.partition(" ")
        if HASH.fullmatch(digest) and (name.startswith(_HEADS) or name == _STASH):
            yield name, digest


def _hash_in(path: str) -> str:
    try:
        found = HASH.fullmatch(text_of(path, SMALL_BYTES))
    except OSError:
        return ""
    return "" if found is None else found[1]


def moves(before: GitRefs, after: GitRefs) -> list[str]:
    """Return a phrase for each move, with the command that takes it back; none if nothing moved."""
    found: list[str] = []
    if before.head != after.head:
        is_commit = HASH.fullmatch(before.head) is not None
        back = f"git switch {'--detach ' * is_commit}{before.head[:_SHORT] if is_commit else before.head}"
        found.append(_phrase("HEAD", _shown(before.head), _shown(after.head), back, before.head))
    for name in sorted({*before.refs, *after.refs}):
        old, new = before.refs.get(name, ""), after.refs.get(name, "")
        if old != new:
            found.append(_move(name, old[:_SHORT], new[:_SHORT], is_current=name == _HEADS + after.head))
    return [*found[:MOST_MOVES], *[f"{len(found) - MOST_MOVES} more"] * (len(found) > MOST_MOVES)]


def _move(name: str, old: str, new: str, *, is_current: bool) -> str:
    if name == _STASH:
        back = "git stash pop" if not old else "" if new else f"git stash store {old}"
        return _phrase("the stash", old, new, back)
    branch = name.removeprefix(_HEADS)
    if not old:
        back = f"git branch -D {branch}" if not is_current else ""
    elif is_current:
        back = f"git reset --soft {old}"
    else:
        back = f"git branch -f {branch} {old}"
    return _phrase(printable(branch), old, new, back, branch)


def _phrase(what: str, old: str, new: str, back: str, named: str = "") -> str:
    """A move in words. A command with a name that a shell would read otherwise is left out."""
    moved = f"{what}: {old or 'nothing'} -> {new or 'nothing'}"
    return f"{moved}, undo with `{back}`" if back and (not named or _PLAIN.fullmatch(named)) else moved


def _shown(head: str) -> str:
    return head[:_SHORT] if HASH.fullmatch(head) else printable(head)
