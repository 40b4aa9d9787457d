"""Which directories a session works in: checked, and spelled in one way, so that listings find them again.

Owns what a client is told about a directory that is not there: the working directory must be one, an additional one
that is missing is only warned of, because it may be on a disk that comes later. Links are left as the client wrote
them. Must not know the store. Called by `registry` and `reopening`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.errors import EnvironmentUnavailableError, InvalidRequestError


def spelled(path: str) -> str:
    """The absolute path without a slash at its end, doubled slashes and dots.

    Raises:
        InvalidRequestError: it is not absolute.
    """
    if not path.startswith("/"):
        raise InvalidRequestError(f"cwd and directories must be absolute paths, not {path!r}")
    return "/" + os.path.normpath(path).lstrip("/")  # because POSIX lets a path keep exactly two slashes in front


def check_working_directory(path: str, advice: str = "choose one that exists") -> None:
    """Raises InvalidRequestError where the path is no directory; the message ends with the advice."""
    if not _is_directory(path):
        what = "is not a directory" if os.path.lexists(path) else "does not exist"
        raise InvalidRequestError(f"cwd {path!r} {what}; {advice}")


def additional(paths: Sequence[str], cwd: str) -> tuple[str, ...]:
    """The additional directories, each once and spelled in one way. Raises InvalidRequestError as `spelled`."""
    return tuple(path for path in dict.fromkeys(map(spelled, paths)) if path != cwd)


def missing(paths: Sequence[str]) -> list[str]:
    """One sentence for each additional directory that is not there."""
    return [f"The additional directory {path} is not there." for path in paths if not _is_directory(path)]


def real_places(cwd: str, directories: Sequence[str]) -> tuple[str, ...]:
    """Where they are, links resolved, the working directory first."""
    return tuple(map(os.path.realpath, (cwd, *directories)))


def alike(known: Iterable[str], cwd: str) -> list[str]:
    """Those of the directories that are `cwd`, by whatever path: an editor may know a project by a link to it.

    Asks the file system about every part of each path, so not to be called on the event loop.
    """
    wanted = os.path.realpath(cwd)
    return [path for path in known if os.path.realpath(path) == wanted]


class Spellings:
    """How a client spells the paths of files in its directories, which it may know by links.

    A tool says where a file really is; an editor that opened the project by a link would not know it there.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._real: list[tuple[str, str]] | None = None

    def of(self, path: str) -> str:
        """An absolute path below the directory that it is in, as that was given; others are left as they are."""
        if any(path.startswith(os.path.join(root, "")) for root in self._roots):
            return path
        if self._real is None:
            self._real = [(os.path.join(os.path.realpath(root), ""), root) for root in self._roots]
        found = [(real, root) for real, root in self._real if path.startswith(real)]
        if not found:
            return path
        real, root = max(found, key=lambda each: len(each[0]))
        return os.path.join(root, path.removeprefix(real))


def gone(cwd: str) -> EnvironmentUnavailableError | None:
    """Why no worker can be in the directory, where it is not there any more."""
    if _is_directory(cwd):
        return None
    return EnvironmentUnavailableError(
        f"the session's directory {cwd} is gone; make it again, or load the session with another cwd"
    )


def _is_directory(path: str) -> bool:
    try:
        return os.path.isdir(path)
    except (OSError, ValueError):
        return False
