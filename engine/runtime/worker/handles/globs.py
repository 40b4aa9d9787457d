"""Globs as statements write them: which root of the workspace one is below, and what it matches there.

A text without a star or another sign is a path: that file, or all files below that directory. Nothing is looked up
here, so that a statement that runs again means the same. Used by the Board.
"""

from __future__ import annotations

import os
import re
from typing import Final

from ....core.domain import is_inside
from ....core.text import printable
from ....files.globs import Glob, Globbing
from ....files.search.globs import read_glob

_MAGIC: Final = re.compile(r"[*?\[{\\]")
_ESCAPED: Final = re.compile(r"([,}\]])")


class Globs:
    """Makes globs for one board. `roots` are the absolute directories of the workspace, the one for relative paths
    first."""

    def __init__(self, globbing: Globbing, roots: tuple[str, ...]) -> None:
        self._globbing = globbing
        self._roots = roots

    def glob(self, text: str) -> Glob:
        """The glob that a statement has written.

        Raises:
            ValueError: it leads out of the workspace, or cannot be read; the sentence says which.
        """
        root, below = self._place(text)
        pattern = below if _MAGIC.search(below) else _of_path(below)
        try:
            read_glob(pattern)
        except ValueError as error:
            raise ValueError(f"group({text!r}): {error}") from None
        return self.known(root, pattern, printable(text))

    def known(self, root: str, pattern: str, text: str) -> Glob:
        """The glob that was made of such a text."""
        return Glob(self._globbing, root, pattern, text)

    def _place(self, text: str) -> tuple[str, str]:
        """The root, and the path or pattern from there."""
        expanded = os.path.expanduser(text)
        if "\0" in expanded or not expanded.strip() or ".." in expanded.split("/"):
            raise ValueError(f"group({text!r}): give a path or a glob of the workspace, without '..'")
        if not expanded.startswith("/"):
            return self._roots[0], expanded
        root = next((root for root in self._roots if is_inside(expanded, (root,))), None)
        if root is None:
            named = ", ".join(self._roots)
            raise ValueError(
                f"group({text!r}): the files of a group are in the workspace, {named}; view() shows others"
            )
        return root, expanded[len(root.rstrip("/")) + 1 :] or "**"


def _of_path(path: str) -> str:
    """What matches a file of that path, and all files below a directory of that path."""
    path = "/".join(segment for segment in path.split("/") if segment not in ("", "."))
    if not path:
        return "**"
    above, _, name = path.rpartition("/")
    name = _ESCAPED.sub(r"\\\1", name)
    return f"{above or '.'}/{{{name},{name}/**}}"
