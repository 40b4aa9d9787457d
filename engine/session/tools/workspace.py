"""Which paths belong to the session: its working directory and the additional ones; and how paths are written.

Statements, logs and models hold text, and a file may have a name that is none. Every tool shows such a name with U+FFFD
for each part that is no UTF-8, and takes that spelling back where one file alone can be meant.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ...files.protected import Protection
from ...files.safe_open import Held, Place, opened_directory, place_to_write, real_roots

_REPLACED: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class Target:
    """A place where something is to be written, and why it is protected (`protected`); empty where it is not.

    Only `Workspace.to_write` makes one, so that nothing is written whose protection was not asked for.
    """

    place: Place
    protected: str


class Workspace:
    """The session's directories.

    Args:
        unsaved: what files would hold, by their real places, if the user's editor saved them; tools read that.
        protection: what other programs run by themselves in there; by default that of the directories as they are now.
        held: where the directories are; by default as they are now.
        records: the directory of the records of writes under way (`temporary_files`); None keeps none.
        ripgrep: the absolute place of the program that searches; None if there is none.
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
    ) -> None:
        self.cwd = cwd
        self.directories = directories
        self.records = records
        self.ripgrep = ripgrep
        self.unsaved = unsaved
        self._held = held or tuple(map(Held, real_roots((cwd, *directories))))
        self.protection = protection or Protection(self.real_roots)

    def with_unsaved(self, place: str, data: bytes) -> Workspace:
        """The same where the editor holds that, unsaved, for the file at a real place."""
        return Workspace(
            self.cwd,
            self.directories,
            records=self.records,
            ripgrep=self.ripgrep,
            unsaved={place: data},
            protection=self.protection,
            held=self._held,
        )

    @contextlib.contextmanager
    def to_write(self, path: str, *, making: bool = False, follows: bool = True) -> Generator[Target]:
        """Where the file at an absolute path is or may come to be, pinned. Arguments and errors as `place_to_write`."""
        with place_to_write(path, self.roots, making=making, follows=follows) as place:
            yield Target(place, self.protection.why(place.path))

    @property
    def roots(self) -> tuple[str, ...]:
        """Everything a tool may open lies in one of these: where the directories were when the session began."""
        return self._held

    @property
    def real_roots(self) -> tuple[str, ...]:
        """The same as plain text."""
        return tuple(map(str, self._held))

    def absolute(self, path: str) -> str:
        """`path`, which may be relative to the working directory or start with `~`; links are left as they are.

        Raises:
            OSError: several names are shown like one in it, or its directory cannot be read or lies outside.
        """
        place = os.path.join(self.cwd, os.path.expanduser(path))
        return self._meant(place) if _REPLACED in place else place

    def _meant(self, place: str) -> str:
        """The place with the names that are there for those that are only shown like this."""
        meant = "/"
        for name in filter(None, place.split("/")):
            path = os.path.join(meant, name)
            if _REPLACED in name and not os.path.lexists(path):
                with opened_directory(meant, self.roots) as directory:
                    alike = [each for each in os.listdir(directory) if name_text(each) == name]
                if len(alike) > 1:
                    raise OSError(f"{len(alike)} names in {meant} are shown as {name}; rename one of them")
                path = os.path.join(meant, alike[0]) if alike else path
            meant = path
        return meant

    def place(self, path: str) -> str:
        """The absolute place of a path as tools write it, for people alone: it may hold U+FFFD."""
        return os.path.normpath(os.path.join(self.cwd, path))

    def shown(self, path: str) -> str:
        """An absolute path as people read it: relative to the working directory where it is in there. Always text."""
        return name_text(next((path[len(root) :] for root in self._spellings if path.startswith(root)), path))

    @property
    def _spellings(self) -> tuple[str, str]:
        # Where a file really is is told with links resolved, which the working directory may be spelled with.
        return self.cwd.rstrip("/") + "/", os.path.realpath(self.cwd).rstrip("/") + "/"


def name_text(name: str) -> str:
    """A name or a path of the file system as text."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def path_text(path: str) -> str:
    """A path as text that a tool takes for the same path."""
    text = name_text(path)
    return f"./{text}" if text.startswith("~") else text  # or else it would be somebody's home
