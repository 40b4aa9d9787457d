"""The end of a command whose output nobody takes any more. Must not know any command."""

from __future__ import annotations

import os
import sys


def abandon_output() -> None:
    """Throws away what is not written yet, because the interpreter would try to write it at exit, and complain."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
