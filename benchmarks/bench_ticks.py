"""What a tick of many running views costs, beside asking the system for the state of their files. Rows of `context`.

All is measured within one process, `programs/ticks.py`, taking turns, because the system's answers depend on what else
the machine does.
"""

from __future__ import annotations

from typing import Final

from benchmarks.environments import OURS
from benchmarks.measuring import Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

VIEWS: Final = 1_000
STATS: Final = 3.0
CHANGED: Final = 0.005
ROUNDS: Final = 25


def rows(setting: Setting) -> list[Row]:
    """The tick with nothing changed, and with one file changed."""
    views, rounds = setting.size(VIEWS), setting.rounds(ROUNDS)
    with programs({"ours": (OURS.python, script("ticks.py"))}) as subjects:
        (ticks,) = subjects.values()
        ticks.seconds("make", views)
        actions = ("stats", "tick", "changed", "cold stats", "cold tick")
        asked = {action: lambda action=action: ticks.seconds(action) for action in actions}
        figures = in_turns(asked, rounds, lambda ask: ask())
    stats, tick, changed = figures["stats"], figures["tick"], figures["changed"]
    return [
        _beside(f"tick of {views:,} running views, nothing changed", tick, stats, setting),
        _beside("the same, with the processor's caches cold", figures["cold tick"], figures["cold stats"], setting),
        row(
            f"the same with one file changed: more by {duration(changed - tick)}",
            {"ours": changed},
            duration,
            bar=f"<= {duration(CHANGED)} more",
            met=changed - tick <= CHANGED or setting.quick,
        ),
    ]


def _beside(name: str, tick: float, stats: float, setting: Setting) -> Row:
    return row(
        name,
        {"ours": tick},
        duration,
        bar=f"<= {STATS:.0f} x the stats",
        peer=f"the stats alone: {duration(stats)}",
        ratio=f"{tick / stats:.2f} x",
        met=tick <= STATS * stats or setting.quick,
    )
