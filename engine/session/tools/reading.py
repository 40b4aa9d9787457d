"""What a tool has read of a file, with what the whole of it was: whoever changes it later must have seen that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer about one file.

    Args:
        path: absolute, the real place of the file, links resolved.
        digest: xxh3 hex of the whole file.
        value: plain data that the statement gets.
    """

    path: str
    digest: str
    value: object
