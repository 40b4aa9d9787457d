"""Directories whose sessions each get a clone of a git repository: the setting `workspaces`, read and looked up.

`DIR=ADDRESS` or `DIR=ADDRESS#BRANCH`. A session that is opened in DIR works in `DIR/SESSION`, its own clone. Performs
no input or output. Called by `settings`, and by the sessions of a process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_BRANCH: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9][\w./+-]*")
_URL: Final = re.compile(r"(?:https?|git|file)://[^@\s]+|ssh://(?:[\w.-]+@)?[^@\s]+", re.ASCII)
_OF_SSH: Final = re.compile(r"[A-Za-z0-9_.][\w.-]*@[A-Za-z0-9][\w.-]*:[^\s:-]\S*", re.ASCII)
"""As git writes addresses: `git@example.org:team/app.git`."""
_HAS_SECRET: Final = re.compile(r"https?://(?:[^/\s]*@|[^\s?]*\?)")
"""A name or a query, which may be a token."""
NO_PAIR: Final = "must be DIR=REPOSITORY, with an absolute DIR"
NAMED_USER: Final = (
    "has a name, password or query in a web address, which statements could read; give it to git with a credential"
    " helper"
)
NO_ADDRESS: Final = "must name repositories by a URL (https, http, ssh, git, file), by USER@HOST:PATH, or by a path"
NO_BRANCH: Final = "has an invalid branch after #"
TWICE: Final = "names a directory twice"


class Repository(Struct, frozen=True):
    """A repository, and the directory for its clones. Without a `branch`, a clone has the repository's own."""

    directory: str
    address: str
    branch: str = ""


def parse_repositories(text: str) -> tuple[Repository, ...]:
    """Return the repositories that a value of the setting names. Raises ValueError; its text quotes nothing."""
    found = tuple(_parsed(each.strip()) for each in text.split(",") if each.strip())
    if len({each.directory for each in found}) < len(found):
        raise ValueError(TWICE)
    return found


def _parsed(text: str) -> Repository:
    directory, _, rest = text.partition("=")
    directory = os.path.expanduser(directory.strip())
    address, _, branch = rest.strip().partition("#")
    if not os.path.isabs(directory) or not address:
        raise ValueError(NO_PAIR)
    if _HAS_SECRET.match(address):
        raise ValueError(NAMED_USER)
    if not (os.path.isabs(address) or _URL.fullmatch(address) or _OF_SSH.fullmatch(address)):
        raise ValueError(NO_ADDRESS)
    if "#" in rest and not is_branch(branch):
        raise ValueError(NO_BRANCH)
    return Repository(os.path.normpath(directory), address, branch)


def is_branch(text: str) -> bool:
    """Return whether git takes the text for the name of a branch, and for nothing else."""
    return _BRANCH.fullmatch(text) is not None


def repository_of(repositories: Sequence[Repository], cwd: str) -> Repository | None:
    """Return the repository that a session in `cwd` has a clone of, if any: `cwd` is DIR, or directly in it."""
    return next((each for each in repositories if each.directory in (cwd, os.path.dirname(cwd))), None)
