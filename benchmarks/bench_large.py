"""What a view of a large file costs, beside reading the bytes of the file alone. Rows of `context`.

All is measured within one process, `programs/large.py`, taking turns. The file is in the memory of the system, because
a disk would be measured otherwise. A place is one that no view was at before, so its pages are read for it.
"""

from __future__ import annotations

from typing import Final

from benchmarks.environments import OURS
from benchmarks.measuring import Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

SIZE: Final = 256 << 20
INDEX: Final = 0.3
PAGE: Final = 0.010
TICK: Final = 0.001
MEMORY: Final = 30.0
ROUNDS: Final = 15


def rows(setting: Setting) -> list[Row]:
    """Indexing, a place, a tick with nothing changed, and memory."""
    size, rounds = setting.size(SIZE), setting.rounds(ROUNDS)
    name = f"view of a log of {size >> 20} MiB"
    with programs({"ours": (OURS.python, script("large.py"))}) as subjects:
        (large,) = subjects.values()
        large.seconds("make", size)
        asked = {
            action: lambda action=action: large.seconds(action) for action in ("read", "index", "page", "tick", "stat")
        }
        figures = in_turns(asked, rounds, lambda ask: ask())
        memory = large.seconds("memory")
    return [
        row(
            f"{name}: made, with its first screen",
            {"ours": figures["index"]},
            duration,
            bar=f"<= {duration(INDEX)}",
            peer=f"reading the bytes alone: {duration(figures['read'])}",
            ratio=f"{figures['index'] / figures['read']:.2f} x",
            met=figures["index"] <= INDEX or setting.quick,
        ),
        row(
            f"{name}: 2,000 tokens at another place",
            {"ours": figures["page"]},
            duration,
            bar=f"<= {duration(PAGE)}",
            met=figures["page"] <= PAGE or setting.quick,
        ),
        row(
            f"{name}: tick, nothing changed",
            {"ours": figures["tick"]},
            duration,
            bar=f"<= {duration(TICK)}",
            peer=f"the stat alone: {duration(figures['stat'])}",
            met=figures["tick"] <= TICK or setting.quick,
        ),
        Row(
            name=f"{name}: memory of the worker, after 50 places",
            ours=f"{memory:.1f} MiB",
            bar=f"<= {MEMORY:.0f} MiB",
            met=memory <= MEMORY,
        ),
    ]
