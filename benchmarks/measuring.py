"""Taking turns: every subject of a comparison is measured once in each round, so that a busy machine slows all alike.

A subject in another interpreter is a program under `programs` that answers each line of JSON with seconds. Figures are
medians after a warm-up round. Must not know what is measured.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple, TypeVar

from benchmarks.environments import OURS, ROOT, Checkout, measured
from benchmarks.report import Row

_Subject = TypeVar("_Subject")

Figures = dict[str, float]
"""One figure by subject; `ours` and `before` are this checkout and the one to compare with."""
PROGRAMS: Final = ROOT / "benchmarks" / "programs"


class Setting(NamedTuple):
    """How thoroughly to measure, and beside which other checkout. `quick` shows that all of it runs, no more."""

    against: Checkout | None = None
    quick: bool = False

    @property
    def checkouts(self) -> dict[str, Checkout]:
        return {"ours": OURS} | ({"before": self.against} if self.against else {})

    def rounds(self, usual: int) -> int:
        return 2 if self.quick else usual

    def size(self, usual: int) -> int:
        """Of something large: a twentieth for a quick look."""
        return usual // 20 if self.quick else usual


class Program:
    """A process that measures what it is asked to."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=measured()
        )

    def seconds(self, action: str, *arguments: object) -> float:
        """What the action took, by the program's own clock. Raises RuntimeError where it did not survive it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([action, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{action} ended the program with {self._process.wait()}; its error is above")
        return float(line)

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def programs(commands: Mapping[str, Sequence[str]]) -> Iterable[dict[str, Program]]:
    """All of them started, and ready, so that none loads its modules while another is measured.

    Ended with the block.
    """
    with ExitStack() as stack:
        started = {name: Program(command) for name, command in commands.items()}
        for program in started.values():
            stack.callback(program.close)
        for program in started.values():
            program.seconds("ready")
        yield started


def script(name: str) -> str:
    return str(PROGRAMS / name)


def in_turns(subjects: Mapping[str, _Subject], rounds: int, action: Callable[[_Subject], float]) -> Figures:
    """The median of each subject over so many rounds, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(rounds + 1):
        for name, subject in subjects.items():
            seconds = action(subject)
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def row(
    name: str,
    figures: Figures,
    show: Callable[[float], str],
    *,
    bar: str = "",
    met: bool | None = None,
    peer: str = "",
    ratio: str = "",
) -> Row:
    """The row of these figures. `peer` is what stands for the other programs; by default all their figures."""
    before = figures.get("before")
    others = [f"{each} {show(value)}" for each, value in figures.items() if each not in ("ours", "before")]
    return Row(
        name=name,
        ours=show(figures["ours"]),
        change="" if not before else f"{figures['ours'] / before:.2f}",
        before="" if before is None else show(before),
        peer=peer or ", ".join(others),
        ratio=ratio,
        bar=bar,
        met=met,
    )


def duration(seconds: float) -> str:
    unit, scale = ("s", 1.0) if seconds >= 1 else ("ms", 1e-3) if seconds >= 1e-3 else ("us", 1e-6)
    return f"{seconds / scale:.2f} {unit}"
