"""The tools of statements beside the bare calls below them in the same run: the tools' rows of the bars.

What is measured, and that both sides do the same, is said in `programs/tools.py` and `programs/searches.py`.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.environments import OURS
from benchmarks.measuring import Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

FLOOR: Final = "floor"
ROUNDS: Final = 9
LARGE_BYTES: Final = 10_000_000
EDIT_SECONDS: Final = 0.1
SEARCH_ROUNDS: Final = 5
SEARCHED_FILES: Final = 100_000
SEARCH_RATIO: Final = 1.5
RIPGREP: Final = "ripgrep"
SEARCHES: Final = (
    ("grep", {"pattern": "needle_here"}, "grep for a word"),
    ("grep", {"pattern": r"needle_\w+\(", "glob": "*.py"}, "grep for an expression in *.py"),
    ("find", {"glob": "*.py"}, "find *.py"),
)


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    commands: dict[str, tuple[str, ...]] = {
        name: (checkout.python, script("tools.py"), "engine") for name, checkout in setting.checkouts.items()
    }
    commands[FLOOR] = (OURS.python, script("tools.py"), "floor")
    with programs(commands) as subjects:
        return [_edit_row(subjects, setting), *_search_rows(setting)]


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


def _search_rows(setting: Setting) -> list[Row]:
    files = setting.size(SEARCHED_FILES)
    commands: dict[str, tuple[str, ...]] = {
        name: (checkout.python, script("searches.py"), "engine") for name, checkout in setting.checkouts.items()
    }
    commands[RIPGREP] = (OURS.python, script("searches.py"), "ripgrep")
    with tempfile.TemporaryDirectory() as folder, programs(commands) as subjects:
        root = Path(folder).resolve()
        make_checkout(root, files)
        return [_search_row(subjects, setting, root, files, *search) for search in SEARCHES]


def _search_row(
    subjects: dict[str, Program], setting: Setting, root: Path, files: int, tool: str, arguments: object, what: str
) -> Row:
    def search(subject: Program) -> float:
        return subject.seconds("search", str(root), tool, arguments)

    figures = in_turns(subjects, setting.rounds(SEARCH_ROUNDS), search)
    ratio = figures["ours"] / figures[RIPGREP]
    return row(
        f"{what} in {files:,} files",
        figures,
        duration,
        bar=f"<= {SEARCH_RATIO} x ripgrep",
        ratio=f"{ratio:.2f} x",
        met=ratio <= SEARCH_RATIO,
    )


def make_checkout(root: Path, files: int) -> None:
    """Source of several kinds, some of it left out by ignore files; one file in a hundred holds what is looked for."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz_", k=chance.randint(3, 10))) for _ in range(3_000)]
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.log\nbuild/\n__pycache__/\n!keep.log\n/dist\nnode_modules/\n")
    for number in range(files):
        folder = root / f"package_{number // 4_000}" / f"module_{number // 400 % 10}" / f"part_{number // 20 % 20}"
        if number % 20 == 0:
            folder.mkdir(parents=True)
        if number % 1_000 == 0:
            (folder / ".gitignore").write_text("*.tmp\n/local.py\n")
        lines = [" ".join(chance.choices(words, k=8)) for _ in range(chance.randint(5, 40))]
        if number % 100 == 0:
            lines.append("def needle_here(x): return 1")
        kind = ("py", "ts", "md", "c", "log")[number % 5]
        (folder / f"file_{number}.{kind}").write_text("\n".join(lines) + "\n")
