"""The judge of a soak notices what grows. `python -m tests.soak --plant descriptor` shows it with real programs."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak.__main__ import LogReading
from tests.soak.report import judge, table, write
from tests.soak.slopes import Allowed, grows, slope
from tests.soak.work import Measured

Series = Callable[[int, random.Random], float]
FLAT: Series = lambda _, chance: 100 + chance.gauss(0, 10)  # noqa: E731 -- a shape in one line
RISING: Series = lambda n, chance: 100 + 0.5 * n + chance.gauss(0, 10)  # noqa: E731 -- a shape in one line
WARMING: Series = lambda n, chance: min(n, 30) + chance.gauss(0, 1)  # noqa: E731 -- a shape in one line
STEPS: Series = lambda n, _: 20 + n // 20  # noqa: E731 -- a shape in one line


def of(series: Series, samples: int = 180, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [series(n, chance) for n in range(samples)]


def measured(**series: Series) -> Measured:
    """A run of half an hour in which all is flat but the series that are given."""
    found = Measured()
    names = ("host memory", "other memory", "largest other memory", "descriptors", "threads", "processes", "store")
    rows = {name: of(series.get(name.replace(" ", "_"), FLAT), seed=n) for n, name in enumerate(names)}
    for n in range(180):
        values = {f"agent: {name}": row[n] for name, row in rows.items()}
        found.samples.append({"seconds": n * 10.0, "turns": n * 20, "calls": n * 50, "pace": 0.01, **values})
    found.latencies["turn: view"] = [(n * 10.0, value / 1000) for n, value in enumerate(rows["threads"])]
    return found


def wrong(found: Measured) -> list[str]:
    return [verdict.name for verdict in judge(found, {}) if verdict.is_wrong]


@pytest.mark.parametrize(
    ("series", "is_rising"),
    [(FLAT, False), (WARMING, False), (RISING, True), (STEPS, True)],
    ids=["flat", "warming", "rising", "steps"],
)
def test_growth_is_told_from_noise_and_warm_up(series: Series, is_rising: bool) -> None:
    found = [slope([float(n) for n in range(180)], of(series, seed=seed)) for seed in range(20)]
    assert [grows(each, Allowed(in_all=1.0)) for each in found] == [is_rising] * 20


def test_growth_before_the_end_of_the_warm_up_does_not_count() -> None:
    work, values = [float(n) for n in range(180)], [float(min(n, 140)) for n in range(180)]
    assert grows(slope(work, values), Allowed())
    assert not grows(slope(work, values, 140), Allowed())


def test_growth_that_the_log_explains_is_allowed() -> None:
    found = slope([float(n) for n in range(180)], of(RISING))
    assert not grows(found, Allowed(per_work=0.5))
    assert grows(found, Allowed(per_work=0.3))
    assert 0.3 < found.lower < found.estimate < 0.6


def test_too_few_samples_have_no_slope() -> None:
    for values in ([], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="too few"):
            slope(values, values)


@pytest.mark.parametrize(
    ("series", "names"),
    [
        ({}, []),
        ({"descriptors": STEPS}, ["agent: descriptors"]),
        ({"host_memory": lambda n, _: 1e8 + 1e5 * n}, ["agent: host memory"]),
        ({"other_memory": lambda n, _: 1e8 + 1e5 * n}, []),
        ({"largest_other_memory": lambda n, _: 1e8 + 1e5 * n}, ["agent: largest other memory"]),
        ({"store": lambda n, _: 1e6 + 1e5 * n}, []),
        ({"store": lambda n, _: 1e6 + 1e4 * n**2}, ["agent: store for each turn"]),
        ({"threads": lambda n, _: 20 + n}, ["agent: threads", "turn: view"]),
    ],
    ids=[
        "flat",
        "descriptors",
        "memory",
        "what is shared",
        "a worker's memory",
        "store",
        "store that grows faster and faster",
        "latency",
    ],
)
def test_each_kind_of_series_is_judged(series: dict[str, Series], names: list[str]) -> None:
    assert wrong(measured(**series)) == names


def test_the_log_may_take_memory() -> None:
    found = measured(host_memory=lambda n, _: 1e8 + 1e5 * n)
    assert not [each for each in judge(found, {"agent: host memory": 5_000.0}) if each.is_wrong]


def test_a_busy_machine_is_no_slow_program() -> None:
    found = measured(threads=lambda n, _: 20 + n)
    for n, row in enumerate(found.samples):
        row["pace"] *= 1 + n / 20
        row["agent: threads"] = 5.0
    assert wrong(found) == []


def test_some_commands_may_read_the_log_once() -> None:
    found = measured()
    for kind in ("/changes", "/rewind", "/timeline"):
        found.latencies[kind] = [(n * 10.0, 0.1 + n / 100) for n in range(180)]
    assert wrong(found) == ["/timeline"]
    assert not LogReading("/rewind", seconds=0.4, load=0.5).is_wrong
    assert LogReading("/rewind", seconds=0.6, load=0.5).is_wrong


def test_results_are_tables_and_charts(tmp_path: Path) -> None:
    found = measured(descriptors=STEPS)
    verdicts = judge(found, {})
    write(tmp_path, found, verdicts)
    assert (tmp_path / "soak.csv").read_text().count("\n") == 181
    assert "turn: view," in (tmp_path / "soak-latency.csv").read_text()
    drawn = ET.parse(tmp_path / "soak.svg").getroot()
    lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert [line.get("stroke") for line in lines].count("#c62828") == 1
    assert len(lines) == 8
    assert "| agent: descriptors | 2" in table(verdicts)
