"""What a recorded past costs: statements with the copies of their values, loads, and bytes on disk.

What each kind of statement does is said in `programs/past.py`. A statement is compared with raw sqlite3 that commits as
many events at once, with WAL and synchronous=FULL, and with a kernel of IPython, which keeps nothing. Loads and bytes
are compared with the other checkout, where one is given: there the bars are that nothing takes a tenth longer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from benchmarks.environments import OURS, peer_python
from benchmarks.measuring import Figures, Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

KINDS: Final = {
    "plain": "small names",
    "views": "a running view of a file that changes before each",
    "effects": "a file written and read through the host in each",
    "acts": "a file written by its own code in each",
}
ROUNDS: Final = 9
STATEMENTS: Final = 100
LOADED: Final = 200
SESSIONS: Final = 100
SESSION_STATEMENTS: Final = 50
KERNEL: Final = ("ipykernel==6.29.5", "jupyter_client==8.6.3")


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """Rows of statements, of loads, and of bytes."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        return [*_statements(place, setting), *_loads(place, setting), *_bytes(place, setting)]


def _engines(place: Path, what: str, setting: Setting) -> dict[str, tuple[str, ...]]:
    return {
        name: (checkout.python, script("past.py"), str(place / f"{what}-{name}"))
        for name, checkout in setting.checkouts.items()
    }


def _statements(place: Path, setting: Setting) -> list[Row]:
    commands = _engines(place, "statements", setting)
    commands["raw"] = (OURS.python, script("store.py"), "raw", str(place / "raw.db"))
    kernel = peer_python("ipykernel", *KERNEL)
    if kernel is not None:
        commands["ipykernel"] = (str(kernel), script("kernel.py"))
    count, rounds = setting.size(STATEMENTS), setting.rounds(ROUNDS)
    with programs(commands) as subjects:
        events = int(subjects["ours"].seconds("events"))

        def each(subject: Program, action: str) -> float:
            if subject is subjects["raw"]:
                return subject.seconds("groups", events, count) / count
            return subject.seconds("statements" if subject is subjects.get("ipykernel") else action, count) / count

        kept = in_turns(subjects, rounds, lambda subject: each(subject, "statements"))
        replies = in_turns(subjects, rounds, lambda subject: each(subject, "replies"))
    return [
        _statement(f"statement: run + diff + log + values, durable ({events} events)", kept),
        _statement("statement until its reply, values kept beside", replies),
    ]


def _statement(name: str, figures: Figures) -> Row:
    limit = 2 * figures["raw"] + 0.3e-3
    kernel = figures.get("ipykernel")
    return row(
        name,
        figures,
        duration,
        ratio=f"{figures['ours'] / figures['raw']:.1f} x raw"
        + ("" if kernel is None else f", {kernel / figures['ours']:.1f} x faster than ipykernel"),
        bar="<= 2 x raw + 0.3 ms, >= 6 x faster than ipykernel",
        met=figures["ours"] <= limit and (kernel is None or kernel >= 6 * figures["ours"]),
    )


def _loads(place: Path, setting: Setting) -> list[Row]:
    count, rounds = setting.size(LOADED), setting.rounds(ROUNDS)
    rows: list[Row] = []
    with programs(_engines(place, "loads", setting)) as subjects:
        for kind, what in KINDS.items():
            for subject in subjects.values():
                subject.seconds("make", kind, 1, count)
            figures = in_turns(subjects, rounds, lambda subject, kind=kind: subject.seconds("load", kind))
            rows.append(_beside(f"load + first statement of {count} statements: {what}", figures, setting))
    return rows


def _beside(name: str, figures: Figures, setting: Setting) -> Row:
    if setting.against is None:
        return row(name, figures, duration)
    return row(name, figures, duration, bar="<= 1.1 x old", met=figures["ours"] <= 1.1 * figures["before"])


def _bytes(place: Path, setting: Setting) -> list[Row]:
    sessions, statements = setting.size(SESSIONS), SESSION_STATEMENTS
    rows: list[Row] = []
    for kind, what in KINDS.items():
        with programs(_engines(place, f"bytes-{kind}", setting)) as subjects:
            for subject in subjects.values():
                subject.seconds("make", kind, sessions, statements)
            figures = {
                of: {name: subject.seconds("taken", of) for name, subject in subjects.items()}
                for of in ("file", "events", "contents")
            }
        each = sessions * statements
        taken = {of: {name: total / each for name, total in found.items()} for of, found in figures.items()}
        parts = [
            f"{name} {taken['events'][name]:,.0f} B of log, {taken['contents'][name]:,.0f} B of contents"
            for name in subjects
        ]
        rows.append(
            row(
                f"{sessions} sessions of {statements} statements on disk: {what}",
                figures["file"],
                lambda taken: f"{taken / 1e6:,.1f} MB",
                peer=f"a statement: {'; '.join(parts)}",
            )
        )
    return rows
