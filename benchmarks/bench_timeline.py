"""What checkpoints cost and bring: statements, namespaces of numpy, restores, replays, and ten cells of pandas.

Beside kernels of IPython, which keep nothing, beside cloudpickle, which copies, and beside Kishu, which checkpoints
after each cell what the cell has changed. What each program does is said in `programs/timeline.py`, `kernel.py`,
`pickled.py` and `kishu_cells.py`. Ours is the whole way through the worker's process, and counts until the worker has
answered the statement that comes next, which has to wait for the fork.

What a fork costs depends on the machine: on how fast it lists a process's pages anew, and copies those that are written
to. So beside ours is a bare fork of a process with as many mappings and pages, which then writes to as many pages
(`programs/bare_fork.py`): no checkpoint by fork can take less. Where that leaves no room for the bar in milliseconds,
ours may take half as much again.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.bench_past import KERNEL
from benchmarks.environments import peer_python
from benchmarks.measuring import Figures, Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

ARRAYS: Final = ("numpy==2.2.6", "pandas==2.3.3", "cloudpickle==3.1.2")
KISHU: Final = ("kishu==0.3.4", "numpy==2.2.6", "pandas==2.3.3")
ROUNDS: Final = 7
SLOW_ROUNDS: Final = 5
STATEMENTS: Final = 50
REPLAYED: Final = 10
IN_SESSION: Final = 10
HISTORY: Final = 1_000
NAMES: Final = 10_000
USUAL: Final = 100
"""MB of numpy that Kishu is asked to keep, too; of ten times as much it takes minutes."""
ARRAY: Final = "import numpy; big = numpy.ones({} << 17)"
CHANGE: Final = "big[0] += 1"
FLOOR: Final = "a bare fork"
_NEAR: Final = 1.5
"""Times the floor that ours may take in any case."""
_LEAST: Final = f"<= {_NEAR:.1f} x {FLOOR}"
CELLS: Final = (
    "import numpy, pandas",
    "frame = pandas.DataFrame(numpy.random.default_rng(7).random(({rows}, 10)), columns=list('abcdefghij'))",
    "frame['k'] = frame.a + frame.b",
    "means = frame.mean()",
    "top = frame.nlargest(100, 'k')",
    "frame['bin'] = (frame.k * 10).astype(int)",
    "groups = frame.groupby('bin').mean()",
    "large = frame[frame.k > 1].copy()",
    "frame.loc[0, 'a'] = 0.0",
    "summary = large.describe()",
)
_MISSING: Final = "kishu 0.3.4 is missing: it cannot be installed for this Python"


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """Rows of statements, of namespaces, of replays, of cells, and of sessions."""
    arrays, kishu = peer_python("arrays", *ARRAYS), peer_python("kishu", *KISHU)
    kernel = peer_python("ipykernel", *KERNEL)
    packages = "" if arrays is None else str(next(arrays.parent.parent.glob("lib/python3.*/site-packages")))
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        commands = {
            name: (checkout.python, script("timeline.py"), str(place / name), packages)
            for name, checkout in setting.checkouts.items()
        }
        floor = {FLOOR: (setting.checkouts["ours"].python, script("bare_fork.py"))}
        kernels = {} if kernel is None else {"ipykernel": (str(kernel), script("kernel.py"))}
        pickled = {} if arrays is None else {"cloudpickle": (str(arrays), script("pickled.py"))}
        cells = {} if kishu is None else {"kishu": (str(kishu), script("kishu_cells.py"), str(place / "kishu"))}
        with programs({**commands, **floor, **kernels, **pickled, **cells}) as subjects:
            return [*_small(subjects, setting), *(_large(subjects, setting) if arrays else ())]


def _of(subjects: dict[str, Program], *peers: str) -> dict[str, Program]:
    return {name: subject for name, subject in subjects.items() if name in ("ours", "before", *peers)}


def _begin(subjects: dict[str, Program], source: str) -> None:
    for subject in subjects.values():
        subject.seconds("begin", source)


def _small(subjects: dict[str, Program], setting: Setting) -> list[Row]:
    ours = _of(subjects)
    _begin(ours, "start = 0")
    restored = in_turns(ours, setting.rounds(ROUNDS), lambda subject: subject.seconds("restore"))
    return [
        _kept(subjects, setting),
        row("restore + first statement, small", restored, duration, bar="<= 10 ms", met=restored["ours"] <= 10e-3),
        *_memory(ours, setting),
        _replayed(ours, setting),
        _names(_of(subjects, "kishu"), setting),
        *_sessions(ours, setting),
    ]


def _kept(subjects: dict[str, Program], setting: Setting) -> Row:
    beside, count = _of(subjects, FLOOR, "ipykernel"), setting.size(STATEMENTS)
    _begin(_of(subjects), "start = 0")
    written = _shaped(subjects)

    def each(subject: Program) -> float:
        if subject is beside[FLOOR]:
            return subject.seconds("fork", written)
        return subject.seconds("statements" if subject is beside.get("ipykernel") else "kept", count) / count

    figures = in_turns(beside, setting.rounds(ROUNDS), each)
    kernel = figures.get("ipykernel")
    return row(
        "statement + checkpoint, each waiting for the one before",
        figures,
        duration,
        ratio=", ".join(
            (
                _over(figures),
                *((f"{kernel / figures['ours']:.1f} x faster than ipykernel without one",) if kernel else ()),
            )
        ),
        bar=f"<= 2.5 ms, >= 2 x faster than ipykernel; or {_LEAST}",
        met=_is_near(figures, 2.5e-3, kernel is None or kernel >= 2 * figures["ours"]),
    )


def _shaped(subjects: dict[str, Program]) -> float:
    """Gives the bare fork the shape that our worker has now; how many pages it is to write to."""
    ours = subjects["ours"]
    ours.seconds("checkpoint")
    subjects[FLOOR].seconds("begin", *(ours.seconds("shape", what) for what in ("mappings", "pages", "huge")))
    return ours.seconds("shape", "written")


def _over(figures: Figures) -> str:
    return f"{figures['ours'] / figures[FLOOR]:.1f} x {FLOOR}"


def _is_near(figures: Figures, limit: float, beats_others: bool = True) -> bool:
    """Whether it is within the bar, or near to what the machine can do."""
    ours = figures["ours"]
    return (ours <= limit and beats_others) or ours <= _NEAR * figures[FLOOR]


def _memory(ours: dict[str, Program], setting: Setting) -> list[Row]:
    """In two parts: a checkpoint that nothing follows, and what is written to then."""

    def each(subject: Program, part: str) -> float:
        subject.seconds("begin", "start = 0")
        return subject.seconds("memory", 10, part)

    idle, written, followed = (
        in_turns(ours, setting.rounds(SLOW_ROUNDS), partial(each, part=part))
        for part in ("checkpoint", "written", "statement")
    )
    return [
        row(
            "memory of an idle checkpoint, PSS over all processes",
            idle,
            _megabytes,
            ratio=f"{_megabytes(written['ours'])} of it written by the worker itself",
            bar="<= 1 MB + what the worker writes to",
            met=idle["ours"] - written["ours"] <= 1e6,
        ),
        row("memory that the statement after it writes to", followed, _megabytes),
    ]


def _megabytes(held: float) -> str:
    return f"{held / 1e6:.1f} MB"


def _replayed(ours: dict[str, Program], setting: Setting) -> Row:
    number = setting.size(HISTORY)
    _begin(ours, "start = 0")
    figures = in_turns(ours, setting.rounds(ROUNDS), lambda subject: subject.seconds("replay", number, REPLAYED))
    limit = 10e-3 + REPLAYED * 0.3e-3
    return row(
        f"replay of statement {number:,} from {number - REPLAYED:,}, and a statement",
        figures,
        duration,
        bar=f"<= 10 ms + {REPLAYED} x 0.3 ms",
        met=figures["ours"] <= limit,
    )


def _names(beside: dict[str, Program], setting: Setting) -> Row:
    number = setting.size(NAMES)
    _begin(beside, f"globals().update({{f'name_{{each}}': [each] for each in range({number})}})")
    figures = in_turns(beside, setting.rounds(SLOW_ROUNDS), _one_statement)
    return row(
        f"statement that binds one name of {number:,}",
        figures,
        duration,
        peer=_peer(figures),
        ratio=_times(figures, "kishu"),
        bar="<= 1.5 ms",
        met=figures["ours"] <= 1.5e-3,
    )


def _one_statement(subject: Program) -> float:
    return min(subject.seconds("statement", "name_1 = [0]") for _ in range(3))


def _sessions(ours: dict[str, Program], setting: Setting) -> list[Row]:
    """Both ways of a session, as a user has them: with a log, and with acts that a checkpoint always follows."""
    rows: list[Row] = []
    for rule in ("re-execution", "checkpoints"):
        figures = in_turns(
            ours, setting.rounds(ROUNDS), lambda subject, rule=rule: subject.seconds("session", rule, IN_SESSION)
        )
        rows.append(row(f"session of {IN_SESSION} statements with effects, restored by {rule}", figures, duration))
    return rows


def _large(subjects: dict[str, Program], setting: Setting) -> list[Row]:
    rows: list[Row] = []
    for usual, limits in ((USUAL, (2e-3, 10e-3)), (1_000, (15e-3, 20e-3))):
        size = setting.size(usual)
        kishu = ("kishu",) if usual == USUAL else ()
        beside = _of(subjects, "cloudpickle", *kishu)
        _begin(beside, ARRAY.format(size))
        written = _shaped(subjects)
        rows += [
            _checkpoint(
                _in_time({**beside, FLOOR: subjects[FLOOR]}, written, setting), size, limits[0], is_usual=usual == USUAL
            ),
            _checkout(_of(beside, *kishu), size, limits[1], setting, is_usual=usual == USUAL),
        ]
    return [*rows, *_pandas(_of(subjects, "kishu"), setting)]


def _in_time(beside: dict[str, Program], written: float, setting: Setting) -> Figures:
    def each(subject: Program) -> float:
        if subject is beside[FLOOR]:
            return subject.seconds("fork", written)
        return subject.seconds("run", CHANGE) if subject is beside.get("kishu") else subject.seconds("checkpoint")

    return in_turns(beside, setting.rounds(SLOW_ROUNDS), each)


def _checkpoint(figures: Figures, size: int, limit: float, *, is_usual: bool) -> Row:
    ours, pickled, kishu = figures["ours"], figures.get("cloudpickle"), figures.get("kishu")
    return row(
        f"checkpoint of {size} MB of numpy, until the next statement is answered",
        figures,
        duration,
        peer=_peer(figures) if is_usual else "",
        ratio=", ".join(filter(None, (_over(figures), _times(figures, "cloudpickle"), _times(figures, "kishu")))),
        bar=f"<= {limit * 1e3:.0f} ms, >= 50 x cloudpickle" + (", >= 400 x kishu" if kishu else "") + f"; or {_LEAST}",
        met=_is_near(
            figures, limit, (pickled is None or pickled >= 50 * ours) and (kishu is None or kishu >= 400 * ours)
        ),
    )


def _checkout(beside: dict[str, Program], size: int, limit: float, setting: Setting, *, is_usual: bool) -> Row:
    if "kishu" in beside:
        beside["kishu"].seconds("mark")

    def back(subject: Program) -> float:
        if subject is not beside.get("kishu"):
            return subject.seconds("restore")
        subject.seconds("run", CHANGE)
        return subject.seconds("checkout", "after = 0")

    figures = in_turns(beside, setting.rounds(SLOW_ROUNDS), back)
    return row(
        f"restore + first statement, {size} MB of numpy",
        figures,
        duration,
        peer=_peer(figures) if is_usual else "",
        ratio=_times(figures, "kishu"),
        bar=f"<= {limit * 1e3:.0f} ms",
        met=figures["ours"] <= limit,
    )


def _pandas(beside: dict[str, Program], setting: Setting) -> list[Row]:
    rows = setting.size(1_000_000)

    def all_cells(subject: Program) -> float:
        subject.seconds("begin", "start = 0")
        seconds = sum(subject.seconds("run", cell.format(rows=rows)) for cell in CELLS)
        subject.seconds("mark")
        return seconds

    def back(subject: Program) -> float:
        subject.seconds("run", "frame['a'] = 0.0")
        return subject.seconds("checkout", "after = 0")

    kept = in_turns(beside, setting.rounds(1), all_cells)
    found = in_turns(beside, setting.rounds(1), back)
    size = f"{rows:,} x 10"
    return [
        row(f"ten cells of pandas on {size}, a checkpoint after each", kept, duration, peer=_peer(kept)),
        row(f"checkout of the last of them + first statement, {size}", found, duration, peer=_peer(found)),
    ]


def _peer(figures: Figures) -> str:
    others = [f"{name} {duration(value)}" for name, value in figures.items() if name not in ("ours", "before")]
    return ", ".join(others if "kishu" in figures else [*others, _MISSING])


def _times(figures: Figures, peer: str) -> str:
    return f"{figures[peer] / figures['ours']:,.0f} x {peer}" if peer in figures else ""
