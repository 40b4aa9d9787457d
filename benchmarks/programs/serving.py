"""The loop of every program in this folder. Standard library only, because some interpreters have nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable


def serve(actions: dict[str, Callable[..., float]]) -> None:
    """Answers each request on standard input with the seconds of its action, until there is no more.

    `ready` is one of every program: whoever asks it waits for what the program loads at its start.
    """
    known = {**actions, "ready": lambda: 0.0}
    for line in sys.stdin:
        action, *arguments = json.loads(line)
        sys.stdout.write(f"{known[action](*arguments)!r}\n")
        sys.stdout.flush()
