"""The script of our own search: `python -I -S program.py DIRECTORY ...`, with a job as JSON on stdin.

Runs without the current directory, the user's variables and site-packages, so that no file of a project is imported by
mistake. The arguments are the directories of the engine's package and of the libraries; the standard library comes
first. Must not import anything else before they are known.
"""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Search, and exit like ripgrep: 0 for matches, 1 for none, 2 for a failure."""
    sys.path += sys.argv[1:]
    search = importlib.import_module("engine.files.search.walk.search").search
    sys.exit(search(json.load(sys.stdin.buffer), sys.stdout.buffer, _say))


def _say(text: str) -> None:
    sys.stderr.buffer.write(os.fsencode(text) + b"\n")


if __name__ == "__main__":
    main()
