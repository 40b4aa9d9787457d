"""What it costs that a command can be undone, beside the calls of git that other agents make for that.

What is measured, and that both sides do the same, is said in `programs/undo.py`. Undo and redo are those of a session.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final

import anyio

from benchmarks.bench_tools import make_checkout
from benchmarks.environments import OURS
from benchmarks.measuring import Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row
from engine import Host, Session, Settings

GIT: Final = "git"
SIZES: Final = (2_400, 100_000)
ROUNDS: Final = 9
MOST_RATIO: Final = 1.2
MOST_SECONDS: Final = 0.035
SPACE_RATIO: Final = 1.1
UNDONE: Final = {1: 0.05, 1_000: 1.0}
"""Seconds that an undo of so many files may take."""
CHANGED: Final = "changed.txt"


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    return [*(each for size in SIZES for each in _comparisons(setting, setting.size(size))), *_undos(setting)]


def _comparisons(setting: Setting, files: int) -> list[Row]:
    commands: dict[str, tuple[str, ...]] = {"ours": (OURS.python, script("undo.py"), "engine")}
    if shutil.which("git"):
        commands[GIT] = (OURS.python, script("undo.py"), "git")
    with tempfile.TemporaryDirectory() as folder, programs(commands) as subjects:
        root = Path(folder).resolve()
        make_checkout(root, files)
        shutil.rmtree(root / ".git")  # which is no repository
        firsts = {name: subject.seconds("first", str(root)) for name, subject in subjects.items()}

        def around(subject: Program) -> float:
            return subject.seconds("around", str(root), CHANGED)

        figures = in_turns(subjects, setting.rounds(ROUNDS), around)
        spaces = {name: subject.seconds("space", str(root)) for name, subject in subjects.items()}
    ratio = figures["ours"] / figures[GIT] if GIT in figures else None
    limit = f"{MOST_RATIO} x git" + (f", {duration(MOST_SECONDS)}" if files <= SIZES[0] else "")
    is_met = ratio is not None and ratio <= MOST_RATIO and (files > SIZES[0] or figures["ours"] <= MOST_SECONDS)
    share = spaces["ours"] / spaces[GIT] if GIT in spaces else None
    return [
        row(
            f"both looks around a command, {files:,} files",
            figures,
            duration,
            bar=f"<= {limit}",
            ratio="" if ratio is None else f"{ratio:.2f} x",
            met=None if ratio is None else is_met,
        ),
        row(f"first look at {files:,} files, in the background", firsts, duration),
        row(
            f"kept of {files:,} files",
            spaces,
            lambda size: f"{size / 1e6:.1f} MB",
            bar=f"<= {SPACE_RATIO} x a packed repository",
            ratio="" if share is None else f"{share:.2f} x",
            met=None if share is None else share <= SPACE_RATIO,
        ),
    ]


def _undos(setting: Setting) -> list[Row]:
    return [_undo(files, seconds, setting.rounds(5)) for files, seconds in UNDONE.items()]


def _undo(files: int, most: float, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder).resolve() / "project"
        project.mkdir()
        seconds = anyio.run(_median, project, files, rounds)
    return row(
        f"undo of {files:,} {'file' if files == 1 else 'files'}",
        {"ours": seconds},
        duration,
        bar=f"<= {duration(most)}",
        met=seconds <= most,
    )


async def _median(project: Path, files: int, rounds: int) -> float:
    async with Host(Settings(state_dir=project.parent / "state"), os.environ) as host:
        session = await host.sessions.create(str(project))
        await _once(session, files, 0)
        spent = sorted([await _once(session, files, number) for number in range(1, rounds + 1)])
    return spent[rounds // 2]


async def _once(session: Session, files: int, number: int) -> float:
    finished = await session.cell(f"bash('for i in $(seq {files}); do echo {number} > f$i; done')")
    assert finished.status == "ok"
    start = perf_counter()
    result = await session.undo()
    spent = perf_counter() - start
    assert result.rewound is not None
    assert len(result.rewound.restored) == files
    await session.redo()
    return spent
