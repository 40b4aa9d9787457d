"""A fresh clone of a git repository, checked out at a commit.

git runs only in a directory that it has just made itself, so no configuration and no hook there is anyone's. Templates
and hooks of the user are off, too; credentials come from the user's own configuration, such as a credential helper or
an SSH agent, and nobody is asked. Must not know sessions. Blocks. Called by `clones`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from ..core.errors import InvalidRequestError
from ..core.repositories import Repository, is_branch
from ..files.safe_open import search_path, trusted_paths
from ..log.secrets import allowed_variables

SECONDS: Final = 600.0
"""How long a clone may take."""
NO_GIT: Final = "git is not installed"
TOO_SLOW: Final = f"it took more than {SECONDS:.0f} s"
NO_COMMIT: Final = "the repository has no commit {} any more"
EMPTY: Final = "the repository has no commits"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_OPTIONS: Final = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false", "gc.auto=0",
    "maintenance.auto=false", "http.lowSpeedLimit=1", "http.lowSpeedTime=60",
)  # fmt: skip
_VARIABLES: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "LC_ALL": "C",
}
_SSH: Final = "GIT_SSH_COMMAND"
_KEPT: Final = (
    _SSH, "GIT_SSH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_SSL_CAINFO",
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
"""Variables that say how to reach a server and its credentials. Others of git would name another repository."""
_BEGINNINGS: Final = ("fatal: ", "error: ", "ERROR: ")


class GitError(InvalidRequestError):
    """Raised if git cannot make a clone; the message is the reason."""


class CheckedOut(NamedTuple):
    """The commit of a clone, and its branch; "" if none is checked out."""

    commit: str
    branch: str


def clone(repository: Repository, place: str, environ: Mapping[str, str], at: CheckedOut | None = None) -> CheckedOut:
    """Clone a repository into a directory that is empty, and check out a commit.

    Args:
        repository: what to clone.
        place: the directory.
        environ: the variables of the user.
        at: None for the newest commit of the repository's branch.

    Raises:
        GitError: git is missing, the repository does not answer or lacks the commit, or the disk is full.
    """
    git = _Git(place, environ)
    source = ("--quiet", "--no-checkout", "--no-local", "--template=")
    branch = ("--branch", repository.branch) if repository.branch and at is None else ()
    git.run("clone", *source, *branch, "--", repository.address, place)
    if at is None:
        name = git.run("-C", place, "symbolic-ref", "--quiet", "--short", "HEAD", may_fail=True)
        commit = git.run("-C", place, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", may_fail=True)
        if commit is None:
            raise GitError(EMPTY)
        at = CheckedOut(commit, name or "")
    else:
        _get(git, place, at.commit)
    target = ("-B", at.branch, at.commit) if is_branch(at.branch) else ("--detach", at.commit)
    git.run("-C", place, "checkout", "--quiet", *target, "--")
    return at


def _get(git: _Git, place: str, commit: str) -> None:
    """Fetch a commit that no branch leads to any more, if it is missing. Raises GitError."""
    problem = GitError(NO_COMMIT.format(commit[:12]))
    if _COMMIT.fullmatch(commit) is None:
        raise problem
    has = ("-C", place, "cat-file", "-e", f"{commit}^{{commit}}")
    if git.run(*has, may_fail=True) is None:
        git.run("-C", place, "fetch", "--quiet", "origin", commit, may_fail=True)
        if git.run(*has, may_fail=True) is None:
            raise problem


class _Git:
    """Runs git, within SECONDS altogether."""

    def __init__(self, place: str, environ: Mapping[str, str]) -> None:
        path = search_path(environ.get("PATH", os.defpath), (os.path.dirname(place),))
        program = shutil.which("git", path=path)
        if program is None:
            raise GitError(NO_GIT)
        self._command = [program, *(word for option in _OPTIONS for word in ("-c", option))]
        # No others: the configuration of git may run programs of the user, who need not know the keys of a server.
        own = {**allowed_variables(environ), **{name: environ[name] for name in _KEPT if name in environ}}
        trusted = trusted_paths(own, (os.path.dirname(place),))
        self._environ = {_SSH: "ssh -o BatchMode=yes -o ConnectTimeout=30", **trusted, **_VARIABLES, "PATH": path}
        self._until = time.monotonic() + SECONDS

    def run(self, *arguments: str, may_fail: bool = False) -> str | None:
        """Return what it prints, or None if it `may_fail` and does. Raises GitError."""
        try:
            with subprocess.Popen(  # noqa: S603 -- git, with arguments that were checked
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd="/",
                env=self._environ,
                start_new_session=True,
            ) as process:
                try:
                    printed, told = process.communicate(timeout=max(0.0, self._until - time.monotonic()))
                except BaseException as error:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    if isinstance(error, subprocess.TimeoutExpired):
                        raise GitError(TOO_SLOW) from None
                    raise
        except OSError as error:
            raise GitError(f"git cannot be started: {error.strerror}") from None
        if process.returncode:
            if may_fail:
                return None
            raise GitError(_reason(told))
        return printed.strip()


def _reason(told: str) -> str:
    """Return the first complaint of git, without a full stop."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    found = next((line for line in lines if line.startswith(_BEGINNINGS)), lines[-1] if lines else "git failed")
    for beginning in _BEGINNINGS:
        found = found.removeprefix(beginning)
    return found.rstrip(".")
