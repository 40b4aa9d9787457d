"""What a diff and a window of a view cost. What levels leave of a whole package is in `bench_outlines`."""

from __future__ import annotations

from typing import Final

from benchmarks.measuring import Figures, Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

LINES: Final = 10_000
LONG: Final = 100_000
ROUNDS: Final = 7
RENDERS: Final = 200


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    commands = {name: (checkout.python, script("levels.py")) for name, checkout in setting.checkouts.items()}
    with programs(commands) as subjects:
        return _costs(subjects, setting)


def _costs(subjects: dict[str, Program], setting: Setting) -> list[Row]:
    rounds, lines, long = setting.rounds(ROUNDS), setting.size(LINES), setting.size(LONG)
    edited = in_turns(subjects, rounds, lambda subject: subject.seconds("edited", lines, 10))
    adversarial = in_turns(subjects, rounds, lambda subject: subject.seconds("adversarial", lines))
    warm = in_turns(subjects, rounds, lambda subject: subject.seconds("warm", long, RENDERS))
    cold = in_turns(subjects, rounds, lambda subject: subject.seconds("cold", long))
    return [
        _bounded(f"level 3: {lines:,} lines with 10 edits", edited, 0.020),
        _bounded(f"level 3: {lines:,} lines of which none is unique", adversarial, 0.050),
        _bounded(f"level 0: {long:,} lines with another budget", warm, 0.001),
        _bounded(f"level 0: a first window on {long:,} lines", cold, 0.010),
    ]


def _bounded(name: str, figures: Figures, bar: float) -> Row:
    return row(name, figures, duration, bar=f"<= {duration(bar)}", met=figures["ours"] <= bar)
