"""Conversations of other programs: the samples, and reading one with ids that count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.cli.transfer.commands import read
from engine.cli.transfer.writer import Imported, Writer
from engine.core.ids import Minter
from engine.log.events import Event
from tests.support.fixed import CountingEntropy, FixedClock

DATA = Path(__file__).resolve().parents[1] / "data" / "foreign"
"""`openhands*.jsonl` were written by openhands-sdk 1.58."""
AT = 1_000.0


def imported(data: bytes, wanted: str | None = None) -> Imported:
    """What comes of the bytes, which messages call `log`."""
    return read(data, "log", Writer(Minter(FixedClock(), CountingEntropy()), "/work", AT), wanted)[1]


def of(value: Any, wanted: str | None = None) -> Imported:
    """What comes of a value written as JSON."""
    return imported(json.dumps(value).encode(), wanted)


def sample(name: str) -> Imported:
    return imported((DATA / name).read_bytes())


def outline(events: tuple[Event, ...]) -> list[str]:
    """Kinds in order, without those that every import has."""
    return [event.kind for event in events if event.kind not in ("session_opened", "title_changed")]
