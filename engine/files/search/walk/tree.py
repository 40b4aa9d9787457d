"""The files below the working directory that a search looks at, in the order of their names. Called by `search`."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO

from .ignoring import Rules


class Tree:
    """A walk that enters no link, and leaves out what the rules say, and the names and `/`-paths in `skipped`.

    Args:
        wanted: matches the whole path of each file that is looked at; None for all.
        say: told of each directory that cannot be read, which ends nothing.
    """

    def __init__(
        self, rules: Rules, wanted: re.Pattern[str] | None, skipped: frozenset[str], say: Callable[[str], None]
    ) -> None:
        self._rules = rules
        self._wanted = wanted
        self._skipped = skipped
        self._say = say
        self.failed = False
        self.met_any = False
        """Whether the rules leave any file, also one that is not wanted."""

    def files(self) -> Iterator[str]:
        """Paths relative to the working directory."""
        open_directories = [("", self._rules)]
        while open_directories:
            directory, rules = open_directories.pop()
            rules = rules.within(directory or ".", prefix=directory)
            below: list[tuple[str, Rules]] = []
            for name, is_directory in self._entries(directory):
                path = directory + name
                if is_directory:
                    if not rules.leave_out(path + "/"):
                        below.append((path + "/", rules))
                elif self._wanted is None or self._wanted.fullmatch(path):
                    if not rules.leave_out(path):
                        self.met_any = True
                        yield path
                elif not self.met_any:
                    self.met_any = not rules.leave_out(path)
            open_directories += reversed(below)

    def _entries(self, directory: str) -> list[tuple[str, bool]]:
        """Files and directories by name; of everything else a search could only wait for it, or leave the place."""
        try:
            descriptor = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            self.report(directory, error)
            return []
        try:
            with os.scandir(descriptor) as entries:
                return sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if not self._skipped.intersection((entry.name, f"/{directory}{entry.name}"))
                    and (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False))
                )
        except OSError as error:
            self.report(directory, error)
            return []
        finally:
            os.close(descriptor)

    def report(self, path: str, error: OSError) -> None:
        """Says what could not be read, as ripgrep does."""
        self.failed = True
        self._say(f"rg: ./{path.removesuffix('/')}: {error.strerror} (os error {error.errno})")


@contextlib.contextmanager
def opened(path: str) -> Generator[BinaryIO]:
    """A regular file for reading. Raises OSError for anything else, also what has become a link since it was listed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield file  # pyright: ignore[reportReturnType] -- unbuffered, which `BinaryIO` does not tell apart
