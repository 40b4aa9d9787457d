"""What those who prepare may use, and what they make of it. Plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from ...context.model import Model
from ...files.disk import Disk
from ...files.outline.model import Outliner
from ...files.revision import Found
from ...log.events.nodes import PayloadKind
from ...log.redaction import Redactor


class Made(Struct, frozen=True, kw_only=True):
    """What a payload is to hold, a `diff` nothing, and what it cost a model.

    `mark` says what it was made from, besides the basis: the same is not made for the same wish twice.
    """

    payload_kind: PayloadKind
    data: bytes = b""
    mark: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """One session's.

    Args:
        disk: the files of the workspace; a path outside is refused there with an OSError, and found unreadable.
        seen: what looks have found, by path, without content.
        kept: the content of a revision that the log has, by xxh3 hex; None where it is not kept.
        model: the session's.
        calls_tools: whether it calls tools.
        allowance: how many tokens it may still spend on what is prepared.
        outliner: gives who makes outlines; None where nobody does.
    """

    disk: Disk
    kept: Callable[[str], bytes | None]
    redactor: Redactor
    model: Model
    calls_tools: bool
    allowance: Callable[[], int]
    outliner: Callable[[], Outliner] | None = None
    seen: dict[str, Found] = field(default_factory=dict[str, Found])
