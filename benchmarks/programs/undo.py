"""What is done around a command so that it can be undone, by this interpreter's engine or by bare calls of git.

git's side is what agents with a private repository of the work tree call: `add` of everything and `write-tree`, before
and after the command. Run as `python undo.py engine|git`; each imports only what it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from serving import serve


class Engine:
    def __init__(self, root: str, state: str) -> None:
        from engine.session.working_tree.baseline import Baseline

        self._baseline = Baseline(root, f"{state}/baseline.db", lambda _: True)

    def look(self) -> None:
        self._baseline.update()


class Git:
    def __init__(self, root: str, state: str) -> None:
        self._state = state
        self._call = ("git", "--git-dir", f"{state}/git", "--work-tree", root)
        subprocess.run(("git", "init", "-q", "--bare", f"{state}/git"), check=True)

    def look(self) -> None:
        for words in (("add", "-A", "."), ("write-tree",)):
            subprocess.run((*self._call, *words), check=True, stdout=subprocess.DEVNULL)

    def pack(self) -> None:
        """As a background pack does."""
        tree = subprocess.run((*self._call, "write-tree"), check=True, capture_output=True, text=True).stdout.strip()
        author = ("-c", "user.name=x", "-c", "user.email=x@x")
        words = (*self._call[:1], *author, *self._call[1:], "commit-tree", "-m", "x", tree)
        commit = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run((*self._call, "update-ref", "HEAD", commit), check=True)
        subprocess.run((*self._call, "gc", "-q"), check=True)


def main(kind: str) -> None:
    sides: dict[str, Engine | Git] = {}
    with tempfile.TemporaryDirectory() as folder:

        def side(root: str) -> Engine | Git:
            if root not in sides:
                state = f"{folder}/{len(sides)}"
                os.mkdir(state)
                sides[root] = Engine(root, state) if kind == "engine" else Git(root, state)
            return sides[root]

        def first(root: str) -> float:
            """The first look at a directory."""
            start = perf_counter()
            side(root).look()
            return perf_counter() - start

        def around(root: str, changed: str) -> float:
            """Both looks around a command that changes one file."""
            found = side(root)
            start = perf_counter()
            found.look()
            spent = perf_counter() - start
            Path(root, changed).write_text(f"{start}\n")
            start = perf_counter()
            found.look()
            return spent + perf_counter() - start

        def space(root: str) -> float:
            """Bytes on disk that are kept of a directory, after the background work."""
            found = side(root)
            if isinstance(found, Git):
                found.pack()
            place = f"{folder}/{list(sides).index(root)}"
            done = subprocess.run(("du", "-sb", place), check=True, capture_output=True, text=True)
            return float(done.stdout.split()[0])

        serve({"first": first, "around": around, "space": space})


if __name__ == "__main__":
    shutil.which("git") or sys.exit("git is missing")
    main(sys.argv[1])
