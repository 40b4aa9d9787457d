"""The command that clients run in terminals: `python terminal_command.py -- VERB ARGUMENTS`. Standard library only.

`lines COUNT CODE` prints lines and exits with a code. `wide COUNT` prints two-byte characters. `show NAME ARGS` prints
its arguments and environment as JSON. `hold FILE SECONDS` writes its process id to the file and keeps running.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(verb: str, *words: str) -> int:
    """Return the exit status."""
    if verb == "lines":
        count, code = map(int, words)
        sys.stdout.write("".join(f"line {number}\n" for number in range(1, count + 1)))
        return code
    if verb == "wide":
        sys.stdout.buffer.write("\u00e9".encode() * int(words[0]))
    elif verb == "show":
        shown = {"args": words[1:], "env": os.environ.get(words[0]), "cwd": os.getcwd()}
        sys.stdout.write(json.dumps(shown) + "\n")
    elif verb == "hold":
        sys.stdout.write("holding\n")
        sys.stdout.flush()
        with open(words[0], "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
        time.sleep(float(words[1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[sys.argv.index("--") + 1 :]))
