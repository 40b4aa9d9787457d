"""How much Python a call executes, which is the same on every machine, as its time is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class TooMuchEffortError(AssertionError):
    """Raised within a call that has executed more lines than it may; so a runaway ends at once."""


def within_lines(limit: int, call: Callable[[], T]) -> T:
    """What `call` returns; each turn of a loop or a comprehension counts as a line, what C code does counts nothing.

    Raises:
        TooMuchEffortError: it would execute more than `limit` lines.
    """
    executed = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal executed
        executed += event == "line"
        if executed > limit:
            raise TooMuchEffortError(f"more than {limit} lines were executed")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call()
    finally:
        sys.settrace(before)
