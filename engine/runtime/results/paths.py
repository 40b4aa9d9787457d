"""What `find` gives: a list of paths that reads as such. Pure; see `tool_values`."""

from __future__ import annotations

from typing import Any, Final, SupportsIndex, cast, overload

from ...core.text import more, printable

REPR_CHARS: Final = 2_000


class Paths(list[str]):
    """Paths in the order of their text, as `read` takes them.

    `more` counts those that were found beyond what the list holds. `notes` say what was not searched.
    """

    def __init__(self, paths: list[str], more: int = 0, notes: tuple[str, ...] = ()) -> None:
        super().__init__(paths)
        self.more = more
        self.notes = notes

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> str: ...
    @overload
    def __getitem__(self, index: slice, /) -> Paths: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> str | Paths:
        found = super().__getitem__(index)
        return Paths(cast("list[str]", found)) if isinstance(index, slice) else cast("str", found)

    @property
    def places(self) -> list[tuple[str, int | None]]:
        """Where to look, for whoever shows places in files."""
        return [(path, None) for path in self]

    def __repr__(self) -> str:
        rows: list[str] = []
        used = 0
        for path in self:
            used += len(path) + 1
            if used > REPR_CHARS and rows:
                break
            rows.append(printable(path))
        hidden = len(self) - len(rows) + self.more
        if hidden:
            rows.append(more(hidden, "file"))
        return "\n".join((*(rows or ["no files"]), *(f"({note})" for note in self.notes)))


def paths_of(answer: Any) -> Paths:
    """The value of the host's plain answer."""
    return Paths(answer["paths"], answer["more"], tuple(answer["notes"]))
