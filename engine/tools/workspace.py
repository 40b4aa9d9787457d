"""Which paths belong to the session: its working directory and the additional ones."""

from __future__ import annotations

import os


class Workspace:
    """The session's directories.

    Args:
        records: the directory of the records of writes under way (`temporary_files`); None keeps none.
    """

    def __init__(self, cwd: str, directories: tuple[str, ...] = (), *, records: str | None = None) -> None:
        self.cwd = cwd
        self.directories = directories
        self.records = records

    @property
    def roots(self) -> tuple[str, ...]:
        """Everything a tool may open lies in one of these."""
        return (self.cwd, *self.directories)

    def absolute(self, path: str) -> str:
        """`path`, which may be relative to the working directory or start with `~`; links are left as they are."""
        return os.path.join(self.cwd, os.path.expanduser(path))

    def shown(self, path: str) -> str:
        """An absolute path as people read it: relative to the working directory where it is in there."""
        return next((path[len(root) :] for root in self._spellings if path.startswith(root)), path)

    @property
    def _spellings(self) -> tuple[str, str]:
        # Where a file really is is told with links resolved, which the working directory may be spelled with.
        return self.cwd.rstrip("/") + "/", os.path.realpath(self.cwd).rstrip("/") + "/"
