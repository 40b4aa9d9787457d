"""The handles of a session as text: a row for each, those in a group below it. Pure; used by `/views`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.text import more
from ...files.tails import HandleRow
from ..tables import table

ALL: Final = "all"
"""The argument of `/views` that lists all handles."""
SHOWN_HANDLES: Final = 40
_DEEPEST: Final = 6
"""A handle in more groups is not indented further, so that its name has room."""
_LEVELS: Final = {0: "0 text", 1: "1 outline", 2: "2 summary", 3: "3 changes"}
_FOLLOWS: Final = {"": "no", "Sync": "each call", "Async": "when prepared"}
_IDLE: Final = "nothing, until a member runs"
_NONE: Final = 'There are no handles. `/run readme = view("README.md")` opens a view of a file.'


def views_text(rows: Sequence[HandleRow], *, is_whole: bool = False) -> str:
    """The handles as a block of columns; one that is in several groups stands below the first. What can be done.

    Args:
        is_whole: whether each has its row; else of more than SHOWN_HANDLES the newest have, and the others are counted.
    """
    if not rows:
        return _NONE
    trees = _trees(rows)
    number = sum(map(len, trees))
    shown = trees if is_whole else _newest(trees)
    left = number - sum(map(len, shown))
    lines = [["handle", "shows", "follows", "lod", "tokens", ""], *(line for tree in shown for line in tree)]
    note = f"\n\n{more(left, 'handle')}; `/views {ALL}` lists them, too." if left else ""
    return f"{table(lines, yielding=(1, 0), paths=(1,))}{note}\n\n{_legend(rows)}"


def _trees(rows: Sequence[HandleRow]) -> list[list[list[str]]]:
    """The lines of each handle that is in no group, with those of what is in it; each handle once."""
    by_id = {row.obj_id: row for row in rows}
    inside = {child for row in rows for child in row.children}
    seen: set[str] = set()
    trees: list[list[list[str]]] = []
    for root in (*(row for row in rows if row.obj_id not in inside), *rows):
        tree: list[list[str]] = []
        waiting = [(root, 0)]
        while waiting:
            row, depth = waiting.pop()
            if row.obj_id not in seen:
                seen.add(row.obj_id)
                tree.append(_line(row, depth))
                waiting += [(by_id[child], depth + 1) for child in reversed(row.children) if child in by_id]
        if tree:
            trees.append(tree)
    return trees


def _newest(trees: Sequence[list[list[str]]]) -> list[list[list[str]]]:
    """The last of the trees that have room, in their order; the first lines of one that has not."""
    room = SHOWN_HANDLES
    kept: list[list[list[str]]] = []
    for tree in reversed(trees):
        kept.append(tree[:room])
        room -= len(kept[-1])
        if not room:
            break
    return kept[::-1]


def budget_of(row: HandleRow) -> str:
    """How many tokens a handle may take: a number, or All."""
    return f"{row.tokens:,}" if row.tokens else "All"


def _line(row: HandleRow, depth: int) -> list[str]:
    return [
        f"{'  ' * (min(depth, _DEEPEST) - 1)}└ {row.name}" if depth else row.name,
        row.title,
        _IDLE if row.idle else _FOLLOWS.get(row.freq, row.freq.replace("Periodic", "every")),
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
