"""What a run found, as rows in suites: how they are shown, and how they are kept beside those of other runs.

A suite that was not run keeps its block, which says when, on which commit and on which machine it was measured. Must
not know how anything is measured. Used by `__main__` and, for rows, by every suite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measured line. `change` is new/old of the same run, `before` the old figure, where there is another checkout.

    Figures have units. `met` is None where there is no bar, or where the peer that it is about is missing.
    """

    name: str
    ours: str
    change: str = ""
    before: str = ""
    peer: str = ""
    ratio: str = ""
    bar: str = ""
    met: bool | None = None


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """One suite's rows. `measured` is the time of day in UTC; `before` is the commit it was compared with."""

    measured: str
    commit: str
    machine: str
    rows: tuple[Row, ...]
    before: str = ""


Results = dict[str, Suite]
"""By the name of the suite."""

_JSON: Final = "latest.json"
_MARKDOWN: Final = "latest.md"
_COLUMNS: Final = (
    ("name", "name"),
    ("change", "new/old"),
    ("ours", "ours"),
    ("before", "old"),
    ("peer", "peer"),
    ("ratio", "ratio"),
    ("bar", "bar"),
    ("met", "met"),
)
"""Field and heading."""


def keep(place: Path, found: Mapping[str, Suite]) -> Results:
    """Writes what was found into `place`, over the suites of the same names alone. Returns all that is kept there."""
    results = load(place) | found
    place.mkdir(parents=True, exist_ok=True)
    (place / _JSON).write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    (place / _MARKDOWN).write_text(markdown(results))
    return results


def load(place: Path) -> Results:
    """What was kept in `place`; nothing where nothing was."""
    path = place / _JSON
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else {}


def markdown(results: Mapping[str, Suite]) -> str:
    """All suites in the order of their names, each under where it comes from."""
    parts = ["# Benchmarks", "Run them with `make bench`, or some of them with `python -m benchmarks acp store`."]
    for name, suite in sorted(results.items()):
        beside = f", beside {suite.before}" if suite.before else ""
        parts += [f"## {name}", f"{suite.measured}, commit {suite.commit}{beside}; {suite.machine}.", table(suite.rows)]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, without the columns in which none has anything."""
    columns = [column for column in _COLUMNS if any(_cell(getattr(row, column[0])) for row in rows)]
    lines = [[heading for _, heading in columns], ["---" for _ in columns]]
    lines += [[_cell(getattr(row, field)) for field, _ in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: str | bool | None) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "**no**"
        case _:
            return value
