"""The loop of every program in this folder. Standard library only, because some interpreters have nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable


def serve(actions: dict[str, Callable[..., float]]) -> None:
    """Answers each request on standard input with the seconds of its action, until there is no more."""
    for line in sys.stdin:
        action, *arguments = json.loads(line)
        sys.stdout.write(f"{actions[action](*arguments)!r}\n")
        sys.stdout.flush()
