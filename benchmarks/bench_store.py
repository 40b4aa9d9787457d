"""The durable store beside raw sqlite3 in the same run: the bars of "durable log append".

Raw is a loop on one thread over the standard library's sqlite3 with WAL and synchronous=FULL that keeps the same rows
in the same tables: it encodes each event, inserts it and updates the session's row, in transactions of the same size
(1 or 16 events). It has no queue, no second thread, no listener and no checks. A last row, without a bar, compares with
bare inserts of JSON that was ready before. A warm-up brings all WAL files to their size. For the store in PostgreSQL,
raw is psycopg (`programs/store_postgresql.py`).
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.environments import measured
from benchmarks.measuring import Figures, Program, Setting, in_turns, programs, row, script
from benchmarks.report import Row
from tests.support.postgresql import running

ROUNDS: Final = 9
TURNS: Final = 31  # of appends: many and short, because a busy disk slows all that is written for seconds at a time
IN_FLIGHT: Final = 16
SINGLES: Final = 50
GROUPS: Final = 25
WARM_UP: Final = 500  # groups, so that the WAL files have reached their size
MILLION: Final = 1_000_000

_FIRST_ROWS: Final = (
    "import sys, time; from pathlib import Path\n"
    "from engine.log.store.sqlite import SqliteStore\n"
    "class Clock: now = staticmethod(time.time)\n"
    "start = time.perf_counter(); SqliteStore(Path(sys.argv[1]), Clock()).rows()\n"
    "print(time.perf_counter() - start)"
)
_FIRST_SELECT: Final = (
    "import sys, time; start = time.perf_counter(); import sqlite3\n"
    "sqlite3.connect(sys.argv[1]).execute('SELECT * FROM sessions').fetchall()\n"
    "print(time.perf_counter() - start)"
)


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        return [*_appends(place, setting), *_large(place, setting), *postgresql(setting)]


def _appends(place: Path, setting: Setting) -> list[Row]:
    rounds = setting.rounds(TURNS)
    with programs(_commands(place, "appends", setting, "raw", "bare")) as subjects:
        for subject in subjects.values():
            subject.seconds("groups", IN_FLIGHT, setting.size(WARM_UP))
        full = {name: subject for name, subject in subjects.items() if name != "bare"}
        bare = {name: subject for name, subject in subjects.items() if name != "raw"}
        single = in_turns(full, rounds, lambda subject: subject.seconds("groups", 1, SINGLES) / SINGLES)
        met = single["ours"] <= single["raw"] + 0.15e-3
        return [
            row("single durable append", single, _fine, ratio=_ratio(single, "raw"), bar="<= raw + 0.15 ms", met=met),
            _rate("16 in flight, refilled as they commit", _per_event(full, rounds, "window"), "raw", 0.8),
            _rate("16 at once, then awaited", _per_event(full, rounds, "groups"), "raw", 0.8),
            _rate("16 in flight, beside bare inserts of ready JSON", _per_event(bare, rounds, "window"), "bare", None),
        ]


def _per_event(subjects: dict[str, Program], rounds: int, action: str) -> Figures:
    return in_turns(subjects, rounds, lambda subject: subject.seconds(action, IN_FLIGHT, GROUPS) / (GROUPS * IN_FLIGHT))


def _rate(name: str, figures: Figures, peer: str, bar: float | None) -> Row:
    speed = figures[peer] / figures["ours"]
    return row(
        f"durable appends, {name}",
        figures,
        lambda seconds: f"{1 / seconds:,.0f}/s",
        ratio=f"{speed:.2f}",
        bar="" if bar is None else f">= {bar} x raw",
        met=None if bar is None else speed >= bar,
    )


def _large(place: Path, setting: Setting) -> list[Row]:
    events, rounds = setting.size(MILLION), setting.rounds(ROUNDS)
    with programs(_commands(place, "large", setting, "raw")) as subjects:
        for subject in subjects.values():
            subject.seconds("fill", events)
        reopened = in_turns(subjects, rounds, lambda subject: subject.seconds("reopen"))
    first = in_turns(_first(place, setting), rounds, _fresh)
    return [
        row(
            f"reopen + tail of 100 from {events:,} events",
            reopened,
            _fine,
            peer=f"raw, not decoded: {_fine(reopened['raw'])}",
            ratio=_ratio(reopened, "raw"),
            bar="<= 5 ms",
            met=reopened["ours"] <= 0.005,
        ),
        row(
            "first rows() of a process, with the imports it causes",
            first,
            _fine,
            peer=f"import sqlite3 + select: {_fine(first['raw'])}",
            ratio=_ratio(first, "raw"),
            bar="<= raw + 3 ms",
            met=first["ours"] <= first["raw"] + 0.003,
        ),
    ]


def postgresql(setting: Setting) -> list[Row]:
    """Through a server that waits for the disk, on this machine. Only this checkout, because others may have none."""
    rounds, ours = setting.rounds(TURNS), setting.checkouts["ours"].python
    with running("18", "fsync=on") as server:
        names = {"ours": "engine", "raw": "raw"}
        commands = {name: (ours, script("store_postgresql.py"), kind, server.address()) for name, kind in names.items()}
        with programs(commands) as subjects:
            for subject in subjects.values():
                subject.seconds("groups", 1, SINGLES)
            single = in_turns(subjects, rounds, lambda subject: subject.seconds("groups", 1, SINGLES) / SINGLES)
            many = in_turns(
                subjects, rounds, lambda subject: subject.seconds("groups", IN_FLIGHT, GROUPS) / (GROUPS * IN_FLIGHT)
            )
    met = single["ours"] <= single["raw"] + 0.3e-3
    return [
        row(
            "single durable append to PostgreSQL",
            single,
            _fine,
            peer=f"psycopg: {_fine(single['raw'])}",
            ratio=_ratio(single, "raw"),
            bar="<= raw + 0.3 ms",
            met=met,
        ),
        _rate("PostgreSQL, 16 sessions in flight", many, "raw", 0.8),
    ]


def _commands(place: Path, what: str, setting: Setting, *raw: str) -> dict[str, Sequence[str]]:
    """A program for each checkout's engine, and for each kind of raw, on databases of their own."""
    ours = setting.checkouts["ours"].python
    engines = {
        name: (checkout.python, script("store.py"), "engine", str(place / f"{what}.{name}.db"))
        for name, checkout in setting.checkouts.items()
    }
    return engines | {kind: (ours, script("store.py"), kind, str(place / f"{what}.{kind}.db")) for kind in raw}


def _first(place: Path, setting: Setting) -> dict[str, Sequence[str]]:
    """What is started for a first listing: imports of SQLite and of the store's own modules, and the open."""
    commands = {
        name: (checkout.python, "-c", _FIRST_ROWS, str(place / f"large.{name}.db"))
        for name, checkout in setting.checkouts.items()
    }
    return commands | {"raw": (setting.checkouts["ours"].python, "-c", _FIRST_SELECT, str(place / "large.raw.db"))}


def _fresh(command: Sequence[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", env=measured())
    return float(done.stdout)


def _fine(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


def _ratio(figures: Figures, peer: str) -> str:
    return f"{figures['ours'] / figures[peer]:.2f}"
