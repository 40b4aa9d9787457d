"""The project's packages on the import path, and its `.pth` files, in which a line that begins with `import` is code.

Python runs these lines whenever it starts, so whoever writes one has a program run. In the sandbox that does no harm.
In a worker with the user's own rights they wait until a module is imported that is not found without them: then the
user's statement asks for the project's code (an editable installation may be found by such a line alone), and to
compute something, or to view a file, never does. Called by `child`.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_CODE: Final = ("import ", "import\t")
_SUFFIX: Final = ".pth"


def add(directory: str, *, with_code: bool) -> None:
    """Appends the directory and what its `.pth` files name; `with_code` runs their lines of code at once."""
    if with_code:
        site.addsitedir(directory)
        return
    code: list[str] = []
    _append(directory)
    for name in _names(directory):
        for line in _lines(os.path.join(directory, name)):
            if line.startswith(_CODE):
                code.append(line)
            elif line.strip() and not line.startswith("#"):
                _append(os.path.join(directory, line.rstrip()))
    if code:
        sys.meta_path.append(_Waiting(code))


def _names(directory: str) -> Sequence[str]:
    with suppress(OSError):
        return sorted(name for name in os.listdir(directory) if name.endswith(_SUFFIX) and not name.startswith("."))
    return ()


def _lines(path: str) -> Sequence[str]:
    with suppress(OSError, ValueError), open(path, encoding="utf-8-sig") as file:
        return file.read().splitlines()
    return ()


def _append(path: str) -> None:
    if os.path.isdir(path) and path not in sys.path:
        sys.path.append(path)


class _Waiting(MetaPathFinder):
    """Runs the lines for the first module that nobody else finds, and looks for it once more."""

    def __init__(self, code: list[str]) -> None:
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if not self._code or path is not None:
            return None
        code, self._code = self._code, []
        for line in code:
            try:
                exec(line)  # noqa: S102 -- as Python itself does
            except Exception as error:
                print(f"{line!r} in a .pth file of the project failed: {error!r}", file=sys.stderr)
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)
            if found is not None:
                return found
        return None
