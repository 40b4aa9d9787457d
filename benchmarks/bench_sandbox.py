"""What a sandbox costs: the start of a worker and a statement in a domain, beside the same without one."""

from __future__ import annotations

from typing import Final

from benchmarks.environments import OURS
from benchmarks.measuring import Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

FREE: Final = "free"
ROUNDS: Final = 31
STATEMENTS: Final = 300
START_SECONDS: Final = 0.005
STATEMENT_SECONDS: Final = 0.0001


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar, each on what a domain adds."""
    commands: dict[str, tuple[str, ...]] = {
        name: (checkout.python, script("sandbox.py"), "held") for name, checkout in setting.checkouts.items()
    }
    commands[FREE] = (OURS.python, script("sandbox.py"), "free")
    with programs(commands) as subjects:
        start = in_turns(subjects, setting.rounds(ROUNDS), lambda subject: subject.seconds("start"))
        count = setting.size(STATEMENTS)
        statement = in_turns(subjects, setting.rounds(ROUNDS), lambda subject: subject.seconds("statement", count))
    return [
        _row("start of a worker in a domain", start, START_SECONDS),
        _row("statement in a domain", statement, STATEMENT_SECONDS),
    ]


def _row(name: str, figures: dict[str, float], bar: float) -> Row:
    more = figures["ours"] - figures[FREE]
    return row(
        name,
        figures,
        duration,
        bar=f"<= {duration(bar)} more than free",
        ratio=f"{'+' if more >= 0 else '-'}{duration(abs(more))}",
        met=more <= bar,
    )
