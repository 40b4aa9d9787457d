"""The handles of a session as text: a row for each, those in a group below it. Pure; used by `/views`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..ports import HandleRow
from .tables import table

_LEVELS: Final = {0: "0 text", 1: "1 outline", 2: "2 summary", 3: "3 changes"}
_FOLLOWS: Final = {"": "no", "Sync": "each call", "Async": "when prepared"}
_NONE: Final = 'There are no handles. `/run readme = view("README.md")` opens a view of a file.'


def views_text(rows: Sequence[HandleRow]) -> str:
    """The handles as a block of columns; one that is in several groups stands below the first. What can be done."""
    if not rows:
        return _NONE
    by_id = {row.obj_id: row for row in rows}
    inside = {child for row in rows for child in row.children}
    lines = [["handle", "shows", "follows", "lod", "tokens", ""]]
    shown: set[str] = set()

    def add(row: HandleRow, depth: int) -> None:
        if row.obj_id in shown:
            return
        shown.add(row.obj_id)
        lines.append(_line(row, depth))
        for child in row.children:
            if child in by_id:
                add(by_id[child], depth + 1)

    for row in (*(row for row in rows if row.obj_id not in inside), *rows):
        add(row, 0)
    return f"{table(lines, yielding=(1, 0), paths=(1,))}\n\n{_legend(rows)}"


def budget_of(row: HandleRow) -> str:
    """How many tokens a handle may take: a number, or All."""
    return f"{row.tokens:,}" if row.tokens else "All"


def _line(row: HandleRow, depth: int) -> list[str]:
    return [
        f"{'  ' * (depth - 1)}└ {row.name}" if depth else row.name,
        row.title,
        _FOLLOWS.get(row.freq, row.freq.replace("Periodic", "every")),
        _LEVELS.get(row.lod, str(row.lod)),
        f"{row.used_tokens:,} of {budget_of(row)}",
        "pinned" if row.pinned else "",
    ]


def _legend(rows: Sequence[HandleRow]) -> str:
    name = next((row.name for row in rows if row.name != row.obj_id), "NAME")
    return "\n".join(
        (
            f"- `/run show({name})` shows one; `/run del {name}` ends it.",
            f"- `/run {name}.SetTokens(500)` and `/run {name}.SetLod(1)` change how much of it is shown.",
            f"- `/run {name}.Run()` has it follow its file, `/run {name}.Pause()` no longer.",
        )
    )
