"""What a run found: the verdict on each series, and its files in benchmarks/results."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.soak.plots import Chart, svg
from tests.soak.slopes import WARM_UP, Allowed, Slope, blocks, grows, slope, warm_up_end
from tests.soak.work import Measured

WINDOWS: Final = 60
"""Latencies are judged by the medians of so many parts of the run."""
MB: Final = 1e6
MEMORY: Final = Allowed(in_all=4 * MB, part=0.02)
STORE: Final = Allowed(in_all=500.0, part=0.25)
COUNTS: Final = Allowed(in_all=2.0)
LATENCY: Final = Allowed(in_all=0.002, part=0.25)
READS_LOG: Final = frozenset({"/changes", "/rewind"})
"""Kinds of requests that read the whole log, and are compared with a load of it at the end of the run."""
FILLING: Final = {"agent": 200, "server": 0}
"""Work after which the checkpoints of the agent's sessions are complete: 16 for each, with copies that rewinds made."""
WORK: Final = {"agent": "turns", "server": "calls"}
UNITS: Final = {"turns": "turn", "calls": "call"}
"""What the growth of each program is compared with."""


@dataclass(frozen=True)
class Verdict:
    """One series and its growth per unit of work. `slope` is None for a series that is only shown."""

    name: str
    unit: str
    points: Sequence[tuple[float, float]]
    slope: Slope | None
    allowed: Allowed
    work: str
    warm_up: float | None = None
    """When it ended, in seconds; None if it is a fifth of the time."""
    relative: Slope | None = None
    """The slope of the same times, divided by those of a fixed computation, which other programs slow, too."""

    @property
    def is_wrong(self) -> bool:
        slopes = [each for each in (self.slope, self.relative) if each is not None]
        return bool(slopes) and all(grows(each, self.allowed) for each in slopes)


def judge(measured: Measured, log: Mapping[str, float], filling: Mapping[str, float] = FILLING) -> list[Verdict]:
    """Judge all series.

    Args:
        log: how many bytes of a series each unit of work may take, because the log does.
        filling: the least warm-up of each program.
    """
    return [*_of_programs(measured, log, filling), *_of_latencies(measured)]


def _of_programs(measured: Measured, log: Mapping[str, float], filling: Mapping[str, float]) -> list[Verdict]:
    found: list[Verdict] = []
    for name in (each for each in measured.samples[0] if ": " in each):
        program, _, what = name.partition(": ")
        work = [row[WORK[program]] for row in measured.samples]
        values = [row[name] for row in measured.samples]
        unit = "" if what in ("descriptors", "threads", "processes") else "B"
        growth = _slope_or_none(work, values, filling[program])
        if what == "store":
            # The log may grow with the work, but not faster and faster.
            allowed = Allowed(per_work=math.inf)
            found.append(_increments(measured, name, program))
        elif what == "other memory":
            # Checkpoints share less and less with their worker, up to a limit. `sampling.taken` says what shows a leak.
            allowed = Allowed(per_work=math.inf)
        elif what == "largest other memory":
            allowed = MEMORY  # because the statements keep nothing
        elif unit:
            allowed = Allowed(log.get(name, 0.0) * 1.25, MEMORY.in_all, MEMORY.part)
        else:
            allowed = COUNTS
        points = [(row["seconds"], row[name]) for row in measured.samples]
        end = warm_up_end(work, filling[program])
        warm_up = next((row["seconds"] for row in measured.samples if row[WORK[program]] >= end), points[-1][0])
        found.append(Verdict(name, unit, points, growth, allowed, WORK[program], warm_up))
    return found


def _increments(measured: Measured, name: str, program: str) -> Verdict:
    """Judge how much each unit of work adds to a series."""
    work = WORK[program]
    points = blocks([row[work] for row in measured.samples], [row[name] for row in measured.samples])
    times = blocks([row[work] for row in measured.samples], [row["seconds"] for row in measured.samples])
    steps = [
        (time, middle, (after - before) / ((then - at) or 1.0))
        for (at, before), (then, after), (_, time) in zip(points, points[1:], times[1:], strict=False)
        for middle in [(at + then) / 2]
    ]
    growth = _slope_or_none([at for _, at, _ in steps], [value for _, _, value in steps])
    shown_points = [(time, value) for time, _, value in steps]
    return Verdict(f"{name} for each {UNITS[work]}", "B", shown_points, growth, STORE, work)


def _of_latencies(measured: Measured) -> list[Verdict]:
    """Judge the medians of each kind of request."""
    end = measured.samples[-1]["seconds"]

    def window_of(seconds: float) -> int:
        return min(WINDOWS - 1, int(seconds / end * WINDOWS))

    paces: dict[int, list[float]] = {}
    for row in measured.samples:
        paces.setdefault(window_of(row["seconds"]), []).append(row["pace"])
    usual = statistics.median(row["pace"] for row in measured.samples)
    found: list[Verdict] = []
    for kind, times in sorted(measured.latencies.items()):
        windows: dict[int, list[float]] = {}
        for at, seconds in times:
            windows.setdefault(window_of(at), []).append(seconds)
        points = {window: statistics.median(each) for window, each in sorted(windows.items())}
        ats = [end * (window + 0.5) / WINDOWS for window in points]
        busy = [statistics.median(paces.get(window, [usual])) / usual for window in points]
        relative = _slope_or_none(ats, [value / each for value, each in zip(points.values(), busy, strict=True)])
        raw = list(points.values())
        shown_points = list(zip(ats, raw, strict=True))
        allowed = Allowed(per_work=math.inf) if kind in READS_LOG else LATENCY
        found.append(Verdict(kind, "s", shown_points, _slope_or_none(ats, raw), allowed, "seconds", None, relative))
    return found


def _slope_or_none(work: Sequence[float], values: Sequence[float], least: float = 0.0) -> Slope | None:
    """Return the slope; None if there are too few values, which are then shown and not judged."""
    try:
        return slope(work, values, least)
    except ValueError:
        return None


def write(folder: Path, measured: Measured, verdicts: Sequence[Verdict]) -> None:
    """Write the samples, the latencies and the charts."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "soak.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, list(measured.samples[0]), lineterminator="\n")
        rows.writeheader()
        rows.writerows([{name: f"{value:.6g}" for name, value in row.items()} for row in measured.samples])
    latencies = [each for each in verdicts if each.unit == "s"]
    with (folder / "soak-latency.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["kind", "seconds", "median latency in ms"])
        table.writerows([[each.name, f"{at:.0f}", f"{v * 1000:.3f}"] for each in latencies for at, v in each.points])
    programs = [each for each in verdicts if each.unit != "s"]
    label = "x: seconds since the start; grey: warm-up"
    (folder / "soak.svg").write_text(svg("Memory, descriptors and store", label, [_chart(each) for each in programs]))
    (folder / "soak-latency.svg").write_text(svg("Latency by request", label, [_chart(each) for each in latencies]))


def _chart(verdict: Verdict) -> Chart:
    first, last = verdict.points[0][0], verdict.points[-1][0]
    return Chart(
        title=verdict.name,
        points=verdict.points,
        top=shown(max(value for _, value in verdict.points), verdict.unit),
        bottom="0",
        note=growth(verdict),
        is_wrong=verdict.is_wrong,
        warm_up=first + WARM_UP * (last - first) if verdict.warm_up is None else verdict.warm_up,
    )


def growth(verdict: Verdict) -> str:
    """Return the slope in words."""
    if verdict.slope is None:
        return "too few, not judged"
    if verdict.unit == "s":
        grown = verdict.slope.estimate * verdict.slope.work
        return f"{grown / (verdict.slope.median or 1.0):+.0%} over the run"
    return f"{shown(verdict.slope.estimate, verdict.unit)} per {UNITS[verdict.work]}"


def shown(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1000:.1f} ms"
    if unit == "B":
        return f"{value / MB:.1f} MB" if abs(value) >= MB else f"{value / 1000:.2f} kB"
    return f"{value:.4g}"


def table(verdicts: Sequence[Verdict]) -> str:
    """Return a table in Markdown of all series."""
    lines = ["| series | median | growth | at least | allowed | grows |", "| --- | --- | --- | --- | --- | --- |"]
    for each in verdicts:
        if each.slope is None:
            lines.append(f"| {each.name} | | too few, not judged | | | |")
            continue
        allowed = each.allowed.per_work * each.slope.work + each.allowed.in_all + each.allowed.part * each.slope.median
        cells = (each.slope.median, each.slope.grown, allowed)
        median, least, most = (shown(value, each.unit) if value < math.inf else "any" for value in cells)
        verdict = "yes" if each.is_wrong else "no"
        lines.append(f"| {each.name} | {median} | {growth(each)} | {least} in all | {most} | {verdict} |")
    return "\n".join(lines)
