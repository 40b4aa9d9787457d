"""Which paths belong to the session: its working directory and the additional ones, after resolving links."""

from __future__ import annotations

import os
from pathlib import Path


class Workspace:
    """The session's directories. Paths are resolved at use, because links change."""

    def __init__(self, cwd: str, directories: tuple[str, ...] = ()) -> None:
        self.cwd = cwd
        self.directories = directories

    def resolve(self, path: str) -> Path:
        """The real absolute path of `path`, which may be relative to the working directory or start with `~`.

        Raises:
            PermissionError: it lies outside the session's directories.
            ValueError: it holds a NUL character.
        """
        if "\0" in path:
            raise ValueError("a path cannot hold a NUL character")
        absolute = Path(os.path.realpath(os.path.join(self.cwd, os.path.expanduser(path))))
        for root in (self.cwd, *self.directories):
            if absolute.is_relative_to(os.path.realpath(root)):
                return absolute
        raise PermissionError(f"{absolute} is outside the workspace {self.cwd}")
