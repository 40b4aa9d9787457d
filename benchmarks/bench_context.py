"""What a model's context costs: prompts over a long session, and the time that a projection takes.

The session is `long_session`: what is counted is what a server received. The time of a projection is that of the worker
alone, in which nodes, table and sections are made and counted: `programs/context.py`. `bench_levels` has the rest.
"""

from __future__ import annotations

from typing import Final

from benchmarks import bench_large, bench_levels, bench_ticks
from benchmarks.environments import OURS
from benchmarks.long_session import PROMPTS, play
from benchmarks.measuring import Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

SHARED: Final = 0.90
TAIL: Final = 0.08
TRIVIAL: Final = 6 * 1024
PROJECTION: Final = 0.020
HANDLES: Final = 1_000
GROUPS: Final = 50
ROUNDS: Final = 9
FILES: Final = 100_000
GLOB_TICK: Final = 0.5


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """Rows of the long session, of the projection, of groups, ticks, large files and levels of detail."""
    return [
        *_session(setting),
        _projection(setting),
        *_globs(setting),
        *bench_ticks.rows(setting),
        *bench_large.rows(setting),
        *bench_levels.run(setting),
    ]


def _session(setting: Setting) -> list[Row]:
    played = play(2 if setting.quick else PROMPTS)
    shared, rerendered = played.shared / played.sent, played.rerendered_shared / played.rerendered_sent
    tail = played.tails / played.sent
    rounds = f"{played.prompts} Rounds on a project whose files change"
    return [
        Row(
            name=f"{rounds}: tokens of the prompts in the prefix shared with the one before",
            ours=f"{shared:.1%} of {played.sent:,}",
            peer=f"every view re-rendered in its place: {rerendered:.1%} of {played.rerendered_sent:,}",
            bar=f">= {SHARED:.0%}",
            met=shared >= SHARED or setting.quick,
        ),
        Row(
            name=f"{rounds}: tokens that have to be read anew",
            ours=f"{played.sent - played.shared:,}",
            peer=f"every view re-rendered in its place: {played.rerendered_sent - played.rerendered_shared:,}",
            ratio=f"{(played.rerendered_sent - played.rerendered_shared) / (played.sent - played.shared):.1f} x fewer",
        ),
        Row(name=f"{rounds}: the tail", ours=f"{tail:.1%}", bar=f"<= {TAIL:.0%}", met=tail <= TAIL or setting.quick),
        Row(
            name="prompt of a trivial turn, as it is sent",
            ours=f"{played.trivial_bytes:,} B",
            bar=f"< {TRIVIAL:,} B",
            met=played.trivial_bytes < TRIVIAL,
        ),
    ]


def _projection(setting: Setting) -> Row:
    commands = {"ours": (OURS.python, script("context.py"))}
    with programs(commands) as subjects:
        for subject in subjects.values():
            subject.seconds("make", setting.size(HANDLES), setting.size(GROUPS))
        figures = in_turns(subjects, setting.rounds(ROUNDS), lambda subject: subject.seconds("project"))
    return row(
        f"projection of {HANDLES:,} handles and {GROUPS} groups",
        figures,
        duration,
        bar=f"<= {duration(PROJECTION)}",
        met=figures["ours"] <= PROJECTION,
    )


def _globs(setting: Setting) -> list[Row]:
    files = setting.size(FILES)
    with programs({"ours": (OURS.python, script("globs.py"))}) as subjects:
        for subject in subjects.values():
            subject.seconds("make", files)
        figures = {
            action: in_turns(subjects, setting.rounds(ROUNDS), lambda subject, action=action: subject.seconds(action))
            for action in ("stat", "tick", "changed")
        }
        memory = subjects["ours"].seconds("memory")
    alone = figures["stat"]["ours"]
    names = {"tick": "where nothing has changed", "changed": "where one file has"}
    held = Row(name=f"memory of a group over {files:,} files, in the worker", ours=f"{memory / 1e6:.0f} MB")
    ticks = [
        Row(
            name=f"tick of a group over {files:,} files, {name}",
            ours=duration(figures[action]["ours"]),
            peer=f"a stat of each: {duration(alone)}",
            bar=f"<= {duration(GLOB_TICK)}",
            met=figures[action]["ours"] <= GLOB_TICK,
        )
        for action, name in names.items()
    ]
    return [held, *ticks]
