"""The View beside openhands-sdk's in the same run: the View rows of the bars.

What is measured, and that both sides do the same, is said in `programs/view.py`. The peer gets an environment of its
own (it needs Python 3.12 or 3.13); one that cannot be installed is reported as missing.
"""

from __future__ import annotations

import math
from typing import Final

from benchmarks.environments import peer_python
from benchmarks.measuring import Figures, Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

PEER: Final = "openhands-sdk"
REQUIREMENT: Final = f"{PEER}==1.58.0"
ROUNDS: Final = 5
STEPS: Final = 4_000
PEER_STEPS: Final = 40  # appends, each with a search, per round: a step of the peer takes a thousand times as long
SMALL: Final = 1_000
LARGE: Final = 100_000
MILLION: Final = 1_000_000
CONDENSED: Final = 20_000

Subjects = dict[str, Program]


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar; those beside the peer have no verdict without it."""
    commands: dict[str, tuple[str, ...]] = {
        name: (checkout.python, script("view.py"), "engine") for name, checkout in setting.checkouts.items()
    }
    python = None if setting.quick else peer_python(PEER, REQUIREMENT, minors=(12, 13))
    if python is not None:
        commands[PEER] = (str(python), script("view.py"), "peer")
    with programs(commands) as subjects:
        return _rows(subjects, setting)


def _rows(subjects: Subjects, setting: Setting) -> list[Row]:
    rounds, large, million = setting.rounds(ROUNDS), setting.size(LARGE), setting.size(MILLION)
    engines = {name: subject for name, subject in subjects.items() if name != PEER}
    condensed = setting.size(CONDENSED)
    step = in_turns(subjects, rounds, lambda subject: subject.seconds("step", SMALL, _steps(subject, subjects)))
    far = in_turns(engines, rounds, lambda subject: subject.seconds("step", large, STEPS))
    small = in_turns(subjects, rounds, lambda subject: subject.seconds("rebuild", SMALL))
    rebuilt = in_turns(subjects, rounds, lambda subject: subject.seconds("rebuild", large))
    enforced = in_turns(subjects, rounds, lambda subject: subject.seconds("enforce", condensed))
    huge = in_turns(engines, rounds, lambda subject: subject.seconds("rebuild", million))
    met = far["ours"] <= 3e-6
    return [
        row(f"append + find_next at {large:,} events", far, duration, bar="<= 3.00 us", met=met),
        _beside(f"append + find_next at {SMALL:,} events", step, 1_000),
        _beside(f"from_events + enforcement, {large:,} events", rebuilt, 40),
        _slope_row(small, rebuilt, huge, large, million),
        _beside(f"a bad condensation enforced, {condensed:,} events", enforced, 40),
    ]


def _steps(subject: Program, subjects: Subjects) -> int:
    return PEER_STEPS if subject is subjects.get(PEER) else STEPS


def _beside(name: str, figures: Figures, bar: float) -> Row:
    peer = figures.get(PEER)
    ratio = None if peer is None else peer / figures["ours"]
    return row(
        name,
        figures,
        duration,
        bar=f">= {bar:,} x",
        peer=f"{REQUIREMENT} missing" if peer is None else duration(peer),
        ratio="" if ratio is None else f"{ratio:,.0f} x",
        met=None if ratio is None else ratio >= bar,
    )


def _slope_row(small: Figures, rebuilt: Figures, huge: Figures, large: int, million: int) -> Row:
    slopes = {name: _slope(million, huge[name], small[name]) for name in huge}
    peer = _slope(large, rebuilt[PEER], small[PEER]) if PEER in small else None
    return row(
        f"log-log slope of from_events, {SMALL:,} to {million:,} (peer: to {large:,})",
        slopes,
        lambda slope: f"{slope:.2f}",
        peer=f"{REQUIREMENT} missing" if peer is None else f"{peer:.2f}",
        bar="<= 1.1",
        met=slopes["ours"] <= 1.1,
    )


def _slope(size: int, value: float, small: float) -> float:
    """The log-log slope from the small log to the one of `size` events."""
    return math.log(value / small) / math.log(size / SMALL)
