"""What of each file was last read or written through tools, so that nobody overwrites what nobody has seen."""

from __future__ import annotations

from ..events import Event


class Seen:
    """A fold over the log."""

    def apply(self, event: Event) -> None:
        """Takes an event of the log."""

    def check(self, path: str, before: bytes | None, basis: str | None) -> None:
        """Raises OSError where the file is not what was last seen of it."""
