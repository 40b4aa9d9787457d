"""What a tool would make of one file; nothing is done yet. Made by `write` and `edit`, done by `landing`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file before and after. `before` is None where there is no file yet.

    `path` is where the file really is: absolute, links resolved. `value` is what the statement gets when it is done.
    """

    path: str
    before: bytes | None
    after: bytes
    value: object
