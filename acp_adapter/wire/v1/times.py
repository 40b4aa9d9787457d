"""Points in time as version 1 writes them. Imports nothing of the wire, because every group of messages has some."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(at: float) -> str | None:
    """Seconds since the Unix epoch as ISO 8601; None for what no calendar has, which a log from elsewhere may hold."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None
