"""Answers lines of JSON with seconds: a tick of a group over many files, and the stats of these files alone.

`["make", files]` makes the files, 50 in each directory, and the group; `["tick"]` ticks it where nothing has changed,
`["changed"]` where one file has, `["stat"]` asks the system for each file and does nothing else. `["memory"]` answers
with the bytes by which the process has grown since before the group.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from engine.core.tokens import load
from tests.support.boards import Desk

_EACH = 50


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        desk, paths, before = Desk(Path(directory)), list[str](), 0
        for line in sys.stdin:
            action, *arguments = json.loads(line)
            if action == "make":
                paths = _made(Path(directory), *arguments)
                # Directories this young would be read again at every tick.
                desk.seconds = time.time() + 1
                load()  # what counting takes is there without any group
                before = _resident()
                desk.run("g = group('**/*.py', tokens=4000)")
            elif action == "changed":
                Path(paths[len(paths) // 2]).write_text(f"# {time.time()}\n")
            started = time.perf_counter()
            if action == "memory":
                print(float(_resident() - before), flush=True)
                continue
            if action == "stat":
                for path in paths:
                    os.stat(path)
            else:
                desk.tick()
            print(time.perf_counter() - started, flush=True)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _made(root: Path, files: int) -> list[str]:
    (root / ".gitignore").write_text("*.pyc\nbuild/\n__pycache__/\n")
    paths: list[str] = []
    for number in range(files):
        folder = root / f"part{number // (_EACH * 20)}" / f"of{number // _EACH}"
        if number % _EACH == 0:
            folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"module_{number}.py"
        path.write_text(f"x = {number}\n")
        paths.append(str(path))
    return paths


main()
