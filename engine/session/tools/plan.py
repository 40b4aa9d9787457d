"""`plan(entries)`: the work ahead, as the user sees it. Always the whole list, which replaces the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast, get_args

import msgspec

from ...core.text import cut_line
from ...log.events.session import PlanEntry, PlanPriority, PlanStatus
from .workspace import Workspace

MOST_ENTRIES: Final = 100
LONGEST_ENTRY: Final = 1_000
"""Characters of an entry's content."""
_SHOWN: Final = 60
_KEYS: Final = ("content", "priority", "status")


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of dictionaries; the function says what is wrong with another value."""

    entries: Any


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that is valid, and not yet recorded."""

    entries: tuple[PlanEntry, ...]


def plan(_workspace: Workspace, arguments: Arguments) -> Planned:
    """Check the plan. Raises TypeError, ValueError."""
    entries = arguments.entries
    if not isinstance(entries, list):
        raise TypeError(f"plan(): entries must be a list of dictionaries, not {_type(entries)}")
    found = cast("list[object]", entries)
    if len(found) > MOST_ENTRIES:
        raise ValueError(f"plan(): a plan has at most {MOST_ENTRIES} entries, not {len(found):,}")
    return Planned(tuple(_entry(number, each) for number, each in enumerate(found, 1)))


def _entry(number: int, given: object) -> PlanEntry:
    if not isinstance(given, dict):
        raise TypeError(f"plan(): entry {number} must be a dictionary, not {_type(given)}")
    fields = cast("dict[str, object]", given)
    unknown = [name for name in fields if name not in _KEYS]
    if unknown:
        raise ValueError(f"plan(): entry {number} has the unknown key {_shown(unknown[0])}; keys are {_or(_KEYS)}")
    content = fields.get("content")
    if not isinstance(content, str) or not content.strip():
        raise ValueError(f"plan(): entry {number} needs `content`, a text that is not empty")
    if len(content) > LONGEST_ENTRY:
        raise ValueError(
            f"plan(): the content of entry {number} has {len(content):,} characters; the limit is {LONGEST_ENTRY:,}"
        )
    return PlanEntry(
        content=content.strip(),
        priority=cast("PlanPriority", _one_of(number, "priority", fields.get("priority", "medium"), PlanPriority)),
        status=cast("PlanStatus", _one_of(number, "status", fields.get("status", "pending"), PlanStatus)),
    )


def _one_of(number: int, name: str, given: object, known: Any) -> object:
    values: tuple[str, ...] = get_args(known)
    if given not in values:
        raise ValueError(f"plan(): the {name} of entry {number} must be {_or(values)}, not {_shown(given)}")
    return given


def _or(values: tuple[str, ...]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"


def _type(value: object) -> str:
    return type(value).__name__


def _shown(value: object) -> str:
    return cut_line(repr(value), _SHOWN)
