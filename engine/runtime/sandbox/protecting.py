"""The program that makes more places read-only for a worker that lives: `runtime.protecting` starts it.

A process of its own, because whoever enters another's namespaces does not come back. It is given the process, what is
writable there and what is to be read-only, as JSON on its standard input; it prints nothing, or why it failed.
"""

from __future__ import annotations

import json
import sys

from .mounts import hold


def main() -> None:
    """Does it. The exit code is 1 where it failed."""
    wanted = json.load(sys.stdin)
    try:
        hold(wanted["pid"], wanted["writable"], wanted["read_only"])
    except OSError as error:
        sys.exit(str(error))
