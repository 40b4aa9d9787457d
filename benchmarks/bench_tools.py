"""The tools of statements beside the bare calls below them in the same run: the tools' rows of the bars.

What is measured, and that both sides do the same, is said in `programs/tools.py`.
"""

from __future__ import annotations

from typing import Final

from benchmarks.environments import OURS
from benchmarks.measuring import Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

FLOOR: Final = "floor"
ROUNDS: Final = 9
LARGE_BYTES: Final = 10_000_000
EDIT_SECONDS: Final = 0.1


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    commands: dict[str, tuple[str, ...]] = {
        name: (checkout.python, script("tools.py"), "engine") for name, checkout in setting.checkouts.items()
    }
    commands[FLOOR] = (OURS.python, script("tools.py"), "floor")
    with programs(commands) as subjects:
        return [_edit_row(subjects, setting)]


def _edit_row(subjects: dict[str, Program], setting: Setting) -> Row:
    size = setting.size(LARGE_BYTES)
    figures = in_turns(subjects, setting.rounds(ROUNDS), lambda subject: subject.seconds("edit", size))
    return row(
        f"edit of a file of {size:,} bytes, durable",
        figures,
        duration,
        bar=f"<= {duration(EDIT_SECONDS)}",
        ratio=f"{figures['ours'] / figures[FLOOR]:.2f} x",
        met=figures["ours"] <= EDIT_SECONDS,
    )
