"""The syntax tree of Python source that is not run here: of a statement that is shown, or of a text that may be one."""

from __future__ import annotations

import ast
import warnings
from typing import Final

_TRIES: Final = 5


def parsed(source: str) -> ast.Module | None:
    """Return the tree; None if the source is not Python, or too deep or too long for the parser.

    Before Python 3.12, threads that parse at the same moment disturb each other's count of levels, which is a
    SystemError (python/cpython#106905). So it is tried again.
    """
    for _ in range(_TRIES):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the source, which Python gives again when it runs
                return ast.parse(source)
        except SystemError:
            continue
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return None
