"""The session's directories: which paths belong to them, and how paths are written.

Statements, logs and models use text, but a file name may be any bytes. Every tool shows each part that is not UTF-8 as
U+FFFD, and accepts that spelling if it matches exactly one file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ...files.installation import own_installation
from ...files.protected import Protection
from ...files.revision import Hide, show_all
from ...files.safe_open import Held, Place, opened_directory, place_to_write, real_roots

REPLACED: Final = "\ufffd"
"""Stands in a path for bytes that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class Target:
    """A place to write to. Only `Workspace.to_write` makes one, so that every write can tell what is protected."""

    place: Place
    _protection: Protection

    @property
    def protected(self) -> str:
        """Why the place is protected, or "". Blocks, for longer than the rest of a write."""
        return self._protection.why(self.place.path)


class Workspace:
    """The session's directories.

    Args:
        unsaved: unsaved contents in the user's editor, by real path, which tools read instead of the files.
        protection: files that other programs run without a question; by default of the directories as they are now.
        held: the directories, opened; by default as they are now.
        records: the directory with the records of writes in progress (`temporary_files`); None keeps none.
        ripgrep: the absolute path of the search program; None if there is none.
        hide: hides secrets in the lines of a text.
    """

    def __init__(
        self,
        cwd: str,
        directories: tuple[str, ...] = (),
        *,
        records: str | None = None,
        ripgrep: str | None = None,
        unsaved: Mapping[str, bytes] = MappingProxyType({}),
        protection: Protection | None = None,
        held: tuple[Held, ...] | None = None,
        hide: Hide = show_all,
    ) -> None:
        self.cwd = cwd
        self.directories = directories
        self.records = records
        self.ripgrep = ripgrep
        self.unsaved = unsaved
        self.hide = hide
        self._held = held or tuple(map(Held, real_roots((cwd, *directories))))
        self.protection = protection or Protection(self.real_roots, own_installation(self.real_roots))

    def with_unsaved(self, place: str, data: bytes) -> Workspace:
        """The same workspace with one unsaved content in the editor, for the file at a real path."""
        return Workspace(
            self.cwd,
            self.directories,
            records=self.records,
            ripgrep=self.ripgrep,
            unsaved={place: data},
            protection=self.protection,
            held=self._held,
            hide=self.hide,
        )

    @contextlib.contextmanager
    def to_write(
        self, path: str, *, making: bool = False, follows: bool = True, as_spelled: bool = False
    ) -> Generator[Target]:
        """The pinned place of a file that exists or may be created. Arguments and errors as `place_to_write`."""
        with place_to_write(path, self.roots, making=making, follows=follows, as_spelled=as_spelled) as place:
            yield Target(place, self.protection)

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that tools may open files in, as they were when the session began."""
        return self._held

    @property
    def real_roots(self) -> tuple[str, ...]:
        """The same as plain text."""
        return tuple(map(str, self._held))

    def absolute(self, path: str) -> str:
        """The absolute path; `path` may be relative to the working directory or start with `~`. Links stay.

        Raises:
            OSError: several names match a spelling with U+FFFD, or its directory is unreadable or outside.
        """
        place = os.path.join(self.cwd, os.path.expanduser(path))
        return self._meant(place) if REPLACED in place else place

    def _meant(self, place: str) -> str:
        """The path with real names for those spelled with U+FFFD."""
        meant = "/"
        for name in filter(None, place.split("/")):
            path = os.path.join(meant, name)
            if REPLACED in name and not os.path.lexists(path):
                with opened_directory(meant, self.roots) as directory:
                    alike = [each for each in os.listdir(directory) if name_text(each) == name]
                if len(alike) > 1:
                    raise OSError(f"{len(alike)} names in {meant} are shown as {name}; rename one of them")
                path = os.path.join(meant, alike[0]) if alike else path
            meant = path
        return meant

    def place(self, path: str) -> str:
        """The absolute path for display: it may contain U+FFFD."""
        return os.path.normpath(os.path.join(self.cwd, path))

    def shown(self, path: str) -> str:
        """An absolute path for display: relative if it is in the working directory, and always text."""
        return name_text(next((path[len(root) :] for root in self._spellings if path.startswith(root)), path))

    @property
    def _spellings(self) -> tuple[str, str]:
        # Real paths have links resolved, but the working directory may be spelled with links.
        return self.cwd.rstrip("/") + "/", os.path.realpath(self.cwd).rstrip("/") + "/"


def name_text(name: str) -> str:
    """A file name or a path as text."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def path_text(path: str) -> str:
    """A path as text that tools resolve to the same path."""
    text = name_text(path)
    return f"./{text}" if text.startswith("~") else text  # because `~` would be a home directory
