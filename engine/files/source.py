"""What may be viewed: a path, a Path, an open file or a `file:` URI, and how its title reads.

Pure string work: `~` is expanded, relative paths are taken from the session's working directory. Called by the Board.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Final

from ..core.links import path_in
from ..core.text import printable

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def path_of(source: object, cwd: str) -> str:
    """The absolute path that `source` names.

    Raises:
        TypeError: it is none of the forms above.
        ValueError: it has one of them, but names no file: another scheme or host, a file without a name, a NUL.
    """
    path = os.path.expanduser(_spelling(source))
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is no path")
    return os.path.normpath(posixpath.join(cwd, path))


def _spelling(source: object) -> str:
    if isinstance(source, str):
        return _from_uri(source) if _SCHEME.match(source) else source
    if isinstance(source, os.PathLike | bytes):
        return os.fsdecode(source)  # pyright: ignore[reportUnknownArgumentType] - PathLike of what, is checked inside
    name = getattr(source, "name", None)
    if isinstance(name, str | bytes) and hasattr(source, "read"):
        spelling = os.fsdecode(name)
        if spelling.startswith("<"):
            raise ValueError(f"the open file {spelling} has no path; pass what it holds as view(text=...)")
        return spelling
    if hasattr(source, "read"):
        raise ValueError("this file object has no path; pass what it holds as view(text=...)")
    raise TypeError(f"view() takes a path, an open file or text=..., not {type(source).__name__}")


def _from_uri(uri: str) -> str:
    try:
        return path_in(uri)
    except ValueError as error:
        raise ValueError(f"{uri!r}: {error}") from None


def title_of(path: str, cwd: str) -> str:
    """The path as titles show it: relative to `cwd` where inside it, and printable whatever the file is called."""
    root = cwd.rstrip("/") + "/"
    shown = path[len(root) :] if path.startswith(root) and len(path) > len(root) else path
    return printable(shown)
