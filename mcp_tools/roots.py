"""Which directories a session is limited to: what the command line says, narrowed by what a client names.

`/` and the home directory are taken from nobody but the command line, because everything would lie in them. Pure, but
for asking where directories are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

_ADVICE: Final = "name a project with --root DIR"


class RootsError(Exception):
    """Raised where no directory is left to work in; the message says what to do."""


class Roots(Struct, frozen=True):
    """Absolute directories, the first of which relative paths start from."""

    directories: tuple[str, ...]

    @property
    def cwd(self) -> str:
        return self.directories[0]


def of_command_line(roots: Sequence[str]) -> Roots | None:
    """The directories of `--root`, None for none given. Raises RootsError for one that is none."""
    return Roots(tuple(dict.fromkeys(map(_directory, roots)))) if roots else None


def chosen(limit: Roots | None, named: Sequence[str] | None) -> Roots:
    """What a session works in.

    Args:
        limit: of the command line, None without.
        named: what the client names as its roots, as `file://` URIs; None where it names none.

    Raises:
        RootsError: nothing is left.
    """
    directories = list(_of_uris(named or ()))
    if limit is not None:
        inside = [each for each in directories if _is_inside(each, limit.directories)]
        return Roots(tuple(inside)) if inside else limit
    if not directories:
        directories = [_working_directory()]
    usable = [each for each in directories if not _is_too_wide(each)]
    if not usable:
        raise RootsError(f"{directories[0]} is too wide to work in; {_ADVICE}")
    return Roots(tuple(dict.fromkeys(usable)))


def _directory(path: str) -> str:
    found = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(found):
        raise RootsError(f"{path} is no directory; {_ADVICE}")
    return found


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise RootsError(f"the working directory is gone; {_ADVICE}") from error


def _of_uris(uris: Iterable[str]) -> Iterable[str]:
    """The directories that they name; what names none, or another machine's, is left out."""
    for uri in uris:
        try:
            parts = urlsplit(uri)
        except ValueError:  # brackets that hold no address
            continue
        path = os.fsdecode(unquote_to_bytes(parts.path))
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and "\0" not in path and os.path.isdir(path):
            yield os.path.abspath(path)


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return any(Path(real).is_relative_to(os.path.realpath(root)) for root in roots)


def _is_too_wide(path: str) -> bool:
    """Whether it is the home directory or above it, links resolved."""
    home = os.path.realpath(os.path.expanduser("~"))
    return Path(home).is_relative_to(os.path.realpath(path))
