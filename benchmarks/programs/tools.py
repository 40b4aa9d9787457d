"""The tools of the engine that this interpreter has, or (`floor`) the bare calls below them: seconds of one act each.

What a tool does is done whole, as the desk does it: what would change, what the user is shown of it, and the act, with
all that is written durable. Run as `python tools.py engine|floor`; each imports only what it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from serving import serve

LINE = "    value_{number} = compute(first={number}, second=other[{number}])  # as the table above says\n"


def text_of(size: int) -> str:
    """Source of at least so many bytes, all its lines different."""
    lines: list[str] = []
    length = number = 0
    while length < size:
        lines.append(LINE.format(number=number))
        length += len(lines[-1])
        number += 1
    return "".join(lines)


class Engine:
    def __init__(self, root: Path) -> None:
        from engine.session.tools import OPERATIONS, SeenFiles, Workspace, changes_of, land

        self._tool = OPERATIONS["edit"]
        self._workspace = Workspace(str(root), records=str(root / "records"))
        self._land, self._changes_of, self._seen = land, changes_of, SeenFiles()

    def edit(self, path: str, old: str, new: str) -> None:
        change = self._tool.perform(self._workspace, self._tool.arguments(path=path, old=old, new=new))
        self._seen.check(change.path, change.before, None)
        assert self._changes_of(change.before, change.after)[0]
        self._land(self._workspace, change)


class Floor:
    def __init__(self, root: Path) -> None:
        self._root = root

    def edit(self, path: str, old: str, new: str) -> None:
        place = self._root / path
        text = place.read_text()
        with (self._root / "new").open("w") as file:
            file.write(text.replace(old, new))
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._root / "new", place)


def main(kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        side = Engine(root) if kind == "engine" else Floor(root)

        def edit(size: int) -> float:
            """One text in the middle of a file of so many bytes is replaced."""
            (root / "large.py").write_text(text_of(size))
            middle = size // len(LINE) // 2
            return _timed(lambda: side.edit("large.py", f"value_{middle} = ", f"changed_{middle} = "))

        serve({"edit": edit})


def _timed(action: Callable[[], object]) -> float:
    os.sync()  # so that it does not wait for what was written before
    start = perf_counter()
    action()
    return perf_counter() - start


main(sys.argv[1])
