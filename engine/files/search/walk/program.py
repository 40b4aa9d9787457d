"""The script file of our own search: `python -I -S program.py DIRECTORY ...`, with a job as JSON on stdin.

Runs without the directory it is started in, the user's variables and site-packages, so that nothing of a project is
imported in place of what is meant. The arguments are the directories of the engine's package and of the libraries; the
standard library comes before them. Must not import anything else before they are known.
"""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Searches, and exits as ripgrep does: 0 where something was found, 1 where nothing was, 2 where it failed."""
    sys.path += sys.argv[1:]
    search = importlib.import_module("engine.files.search.walk.search").search
    sys.exit(search(json.load(sys.stdin.buffer), sys.stdout.buffer, _say))


def _say(text: str) -> None:
    sys.stderr.buffer.write(os.fsencode(text) + b"\n")


if __name__ == "__main__":
    main()
