"""Where sessions are kept: space, permissions, what is there, whether it is intact, and who is using it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ...core.text import plural
from ...log.store import DATABASE
from ...log.store.locks import owners
from ...log.store.maintenance import contents_taken, faults, open_to_others
from ..output.opened import settings, store
from ..output.printing import shown, size
from .finding import Finding, Grade

LITTLE: Final = 200_000_000
TOO_LITTLE: Final = 20_000_000
"""Bytes free under the state directory."""
_CHECK_SECONDS: Final = 5.0


def disk() -> Iterable[Finding]:
    place = settings().state_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    advice = "" if room(free) == "ok" else "; free some space"
    return [Finding(room(free), f"{size(free)} free at {shown(str(place))}{advice}")]


def room(free: int) -> Grade:
    """What so many free bytes mean."""
    if free < TOO_LITTLE:
        return "failed"
    return "note" if free < LITTLE else "ok"


def permissions() -> Iterable[Finding]:
    place = settings().state_dir
    if place.exists() and not place.is_dir():
        return [Finding("failed", f"{shown(str(place))} is no directory; choose another state_dir")]
    commands = open_to_others(place, _database())
    if not commands:
        return [Finding("ok", "only you may read your sessions")]
    return [Finding("note", f"others may get at your sessions; run: {command}") for command in commands]


def sessions() -> Iterable[Finding]:
    with store() as opened:
        rows = opened.rows()
    taken = sum(path.stat().st_size for path in settings().state_dir.rglob("*") if path.is_file())
    found = [Finding("failed", row.complaint) for row in rows if row.complaint]
    return [
        *found,
        Finding(
            "ok", f"{len(rows):,} {plural(len(rows), 'session')}, {size(taken)} in {shown(str(settings().state_dir))}"
        ),
    ]


def past() -> Iterable[Finding]:
    """What is kept for rebuilds beside the logs."""
    if not _database().exists():
        return []
    found = contents_taken(_database(), _CHECK_SECONDS)
    if found is None:
        return [Finding("note", "what is kept for rebuilds could not be counted; see integrity")]
    taken, values = map(size, found)
    limit = size(settings().past_bytes)
    return [
        Finding("ok", f"{taken} kept for rebuilds, {values} of it copies of values; past_bytes is {limit} a session")
    ]


def integrity() -> Iterable[Finding]:
    if not _database().exists():
        return [Finding("note", "there is no database yet")]
    found = faults(_database(), _CHECK_SECONDS)
    if found is None:
        return [Finding("note", f"the database is too large to be checked within {_CHECK_SECONDS:.0f} s")]
    return [Finding("failed", f"damaged: {shown(fault)}") for fault in found] or [
        Finding("ok", "the database is intact")
    ]


def in_use() -> Iterable[Finding]:
    if not _database().exists():
        return []
    found = owners(str(_database()))
    if not found:
        return [Finding("ok", "no session is in use")]
    return [Finding("ok", f"session {session_id} is in use by process {pid}") for session_id, pid in found.items()]


def _database() -> Path:
    return Path(os.path.realpath(settings().state_dir / DATABASE))
