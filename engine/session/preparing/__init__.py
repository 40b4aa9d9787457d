"""What can be prepared for nodes beside statements and ticks, a row for each work that a node may wish for.

Adding one is a file and a row: a function from a wish and the sources to what a payload is to hold. Called by
`session.preparer`, each row from a task of its own, so that one that waits for a model holds up no other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ...log.statements import Want
from .content import content
from .index import index
from .outline import outline
from .sources import Made, Sources
from .summary import summary

Prepare = Callable[[Want, Sources], Awaitable[Made | None]]
"""What was prepared for a wish; None where there is nothing to say."""

PREPARERS: Final[Mapping[str, Prepare]] = {
    "content": content,
    "outline": outline,
    "summary": summary,
    "index": index,
}
"""By the name of the work, as wishes have it."""

__all__ = ["PREPARERS", "Made", "Prepare", "Sources"]
