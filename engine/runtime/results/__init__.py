"""What statements get from tools: plain data in small classes whose repr is what a person wants to read.

The plain data is what crosses processes, what the log keeps and what a replay answers with; a class adds its reading.
Pure. One file for each class. Used by the worker's functions, and by the host for what it shows of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast, runtime_checkable

import msgspec

from ...core.mcp_servers import called, explained
from .completed import Completed
from .matches import matches_of
from .paths import paths_of
from .server_answer import ServerAnswer
from .server_help import ServerHelp
from .written import Written

VALUES: Final[dict[str, Callable[[Any], object]]] = {
    "grep": matches_of,
    "find": paths_of,
    "write": lambda data: Written(**data),
    "edit": lambda data: Written(**data),
    "bash": lambda data: Completed(**data),
}
"""By the names of their tools, what makes the value of plain data; the others' answers are plain."""


def value_of(tool: str, answer: object) -> object:
    """What a statement gets for an answer."""
    make = VALUES.get(tool)
    if make is not None:
        return make(answer)
    if called(tool) is not None:
        return ServerAnswer(**cast("dict[str, Any]", answer))
    return answer if explained(tool) is None else msgspec.convert(answer, ServerHelp)


@runtime_checkable
class Placed(Protocol):
    """A value that speaks of places in files."""

    @property
    def places(self) -> Sequence[tuple[str, int | None]]:
        """Paths as the answer has them, with lines counted from 1."""
        ...


def places_of(tool: str, answer: object, limit: int) -> Sequence[tuple[str, int | None]]:
    """The first places that an answer speaks of; of a file the first one alone, because it is opened once."""
    value = value_of(tool, answer)
    if not isinstance(value, Placed):
        return []
    first: dict[str, int | None] = {}
    for path, line in value.places:
        first.setdefault(path, line)
        if len(first) == limit:
            break
    return list(first.items())


def shown_value(tool: str, answer: object) -> str:
    """The answer as a person reads it: texts as they are, lists line by line."""
    value = value_of(tool, answer)
    if isinstance(value, str | ServerAnswer | ServerHelp):
        return value if isinstance(value, str) else value.text
    return "\n".join(map(str, cast("list[object]", value))) if type(value) is list else repr(value)
