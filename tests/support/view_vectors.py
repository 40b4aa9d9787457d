"""The vectors of `conformance/specification/vectors/view.json`, with their neutral events as events of this program."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.cli.vectors import view_event_of
from engine.log.events import Event

_PATH = Path(__file__).parents[2] / "conformance" / "specification" / "vectors" / "view.json"


@dataclass(frozen=True)
class Expected:
    view_ids: tuple[str, ...]
    manipulation_indices: tuple[int, ...]
    unhandled_condensation_request: bool


@dataclass(frozen=True)
class Vector:
    name: str
    tags: tuple[str, ...]
    events: tuple[Event, ...]
    appended: Expected
    enforced: Expected


def load_vectors() -> tuple[Vector, ...]:
    document = json.loads(_PATH.read_text(encoding="utf-8"))
    return tuple(
        Vector(
            name=row["name"],
            tags=tuple(row["tags"]),
            events=tuple(view_event_of(neutral, seq) for seq, neutral in enumerate(row["events"])),
            appended=_expected(row["expected"]["appended"]),
            enforced=_expected(row["expected"]["enforced"]),
        )
        for row in document["vectors"]
    )


def _expected(row: dict[str, Any]) -> Expected:
    return Expected(tuple(row["view_ids"]), tuple(row["manipulation_indices"]), row["unhandled_condensation_request"])
