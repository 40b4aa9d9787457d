"""Which paths belong to the session: its working directory and the additional ones."""

from __future__ import annotations

import os


class Workspace:
    """The session's directories."""

    def __init__(self, cwd: str, directories: tuple[str, ...] = ()) -> None:
        self.cwd = cwd
        self.directories = directories

    @property
    def roots(self) -> tuple[str, ...]:
        """Everything a tool may open lies in one of these."""
        return (self.cwd, *self.directories)

    def absolute(self, path: str) -> str:
        """`path`, which may be relative to the working directory or start with `~`; links are left as they are."""
        return os.path.join(self.cwd, os.path.expanduser(path))
