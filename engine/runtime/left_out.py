"""What one attempt at a history tells the next one: what ended it, and what is not to be done again.

Must not know how an attempt proceeds. Used by `rebuild`, which decides, and by `attempt` with its parts.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field


class Culprit(Struct, frozen=True):
    """What ended an attempt: the statement at `position` of the steps, None where nobody knows which, -1 before any.

    `is_loading`: not that statement, but what was kept of its names. `is_unclear`: whether any did is to be found out.
    """

    position: int | None
    fault: Literal["ended the worker", "left Python unusable in its process"] = "left Python unusable in its process"
    is_loading: bool = False
    is_unclear: bool = False


class LeftOut(Struct):
    """What an attempt is not to do: statements, by position, each with a phrase that says why, and loading of values.

    With `checks` it looks after each statement whether another one would still run. With `alone` it asks for each step
    by itself.
    """

    statements: dict[int, str] = field(default_factory=dict[int, str])
    values: set[int] = field(default_factory=set[int])
    checks: bool = False
    alone: bool = False
