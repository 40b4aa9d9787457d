"""What `write` and `edit` return: which file was changed, by how much, and where."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.text import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that was written.

    Args:
        path: relative to the working directory where it is in there.
        created: whether there was none before.
        added, removed: lines; both 0 where the content is binary.
        line: the first that differs, counted from 1; None where none does or the content is binary.
        size: bytes.
    """

    path: str
    created: bool
    added: int
    removed: int
    line: int | None
    size: int

    def __repr__(self) -> str:
        if self.created:
            amount = f"{self.added:,} {plural(self.added, 'line')}" if self.added else self._bytes()
            return f"created {self.path}: {amount}"
        if self.line is None:
            return f"wrote {self.path}: {self._bytes()}"
        return f"wrote {self.path}: +{self.added} -{self.removed} at line {self.line}"

    def _bytes(self) -> str:
        return f"{self.size:,} {plural(self.size, 'byte')}"
