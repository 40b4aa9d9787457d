"""What `grep` gives: a list of matches that reads like grep's own output. Pure; see `tool_values`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, SupportsIndex, cast, overload

from ...core.text import cut_line, more, plural, printable, visible

REPR_CHARS: Final = 4_000
LINE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matched: its number, counted from 1, and its text, cut where it is long; and lines beside it."""

    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __str__(self) -> str:
        return _row(self.path, self.line, ":", self.text)


class Matches(list[Match]):
    """The matches in the order of their paths and lines.

    `more` counts those that were found beyond what the list holds, in `more_files` files. `notes` say what was not
    searched.
    """

    def __init__(self, matches: list[Match], more: int = 0, more_files: int = 0, notes: tuple[str, ...] = ()) -> None:
        super().__init__(matches)
        self.more = more
        self.more_files = more_files
        self.notes = notes

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Match: ...
    @overload
    def __getitem__(self, index: slice, /) -> Matches: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> Match | Matches:
        found = super().__getitem__(index)
        return Matches(cast("list[Match]", found)) if isinstance(index, slice) else cast("Match", found)

    @property
    def places(self) -> list[tuple[str, int | None]]:
        """Where to look, for whoever shows places in files."""
        return [(match.path, match.line) for match in self]

    def __repr__(self) -> str:
        rows: list[str] = []
        used, shown = 0, 0
        for block in self._blocks():
            used += sum(len(row) + 1 for row in block)
            if used > REPR_CHARS and rows:
                break
            rows += block
            shown += 1
        hidden = len(self) - shown
        if hidden or self.more:
            files = len({match.path for match in islice(self, shown, None)}) + self.more_files
            rows.append(f"{more(hidden + self.more, 'match')} in {files} {plural(files, 'file')}")
        return "\n".join((*(rows or ["no matches"]), *(f"({note})" for note in self.notes)))

    def _blocks(self) -> Iterator[list[str]]:
        """The rows of each match that are not yet shown with the one before it, or will be with the one after it."""
        path, last = "", 0
        following: list[Match | None] = [*self, None]
        for match, after in zip(self, following[1:], strict=True):
            if match.path != path:
                path, last = match.path, 0
            end = after.line if after is not None and after.path == path else match.line + 1 + len(match.after)
            first = match.line - len(match.before)
            before = [(number, text) for number, text in enumerate(match.before, first) if number > last]
            beyond = [(number, text) for number, text in enumerate(match.after, match.line + 1) if number < end]
            yield [
                *(["--"] if last and first > last + 1 and (match.before or match.after) else []),
                *(_row(path, number, "-", text) for number, text in before),
                _row(path, match.line, ":", match.text),
                *(_row(path, number, "-", text) for number, text in beyond),
            ]
            last = match.line + len(beyond)


def matches_of(answer: Any) -> Matches:
    """The value of the host's plain answer."""
    return Matches(
        [Match(path, line, text, tuple(before), tuple(after)) for path, line, text, before, after in answer["matches"]],
        answer["more"],
        answer["more_files"],
        tuple(answer["notes"]),
    )


def _row(path: str, line: int, mark: str, text: str) -> str:
    return f"{printable(path)}{mark}{line}{mark} {cut_line(visible(text), LINE_CHARS)}"
