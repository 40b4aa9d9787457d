"""Starts a zygote as on another system: takes the arguments of `engine/runtime/worker/boot.py` and runs it."""

from __future__ import annotations

import os
import runpy
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if __name__ == "__main__":
    # What the switch needs is on the import path that the zygote is given.
    given = sys.path[:]
    sys.path[:] = [ROOT, *sys.argv[7:]]
    from tests.support.portable import become_program

    become_program()
    sys.path[:] = given
    runpy.run_path(os.path.join(ROOT, "engine", "runtime", "worker", "boot.py"), run_name="__main__")
