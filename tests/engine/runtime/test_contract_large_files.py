"""Files of hundreds of megabytes and more, really there, viewed in any environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.log.events.nodes import RevisionAdopted
from engine.runtime.environment import Environment
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
AnyBench = Bench[Environment]
LINE = b"2026-11-22 08:00:00 INFO worker[%09d] handled a request in 12 ms, status 200, path /api/v1/items\n"
LARGEST = 1 << 30
MEMORY = 30 << 20


def _log(path: Path, size: int) -> int:
    """Writes a log of that size or a little more; how many lines it has."""
    lines = 0
    with open(path, "wb") as file:
        while file.tell() < size:
            file.write(b"".join(LINE % number for number in range(lines + 1, lines + 10_001)))
            lines += 10_000
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return lines


def _append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def _one_line(path: Path, size: int) -> None:
    """A line of that size, which takes no room on the disk."""
    with open(path, "wb") as file:
        file.write(b"x" * 10_000)
        file.truncate(size)
        file.seek(size - 3)
        file.write(b"end")


async def test_a_log_of_300_mb_is_shown_anywhere_at_once_and_little_of_it_is_held(b: AnyBench) -> None:
    lines = _log(b.cwd / "big.log", 300 << 20)
    await b.run(
        "import json, time\n"
        "def held():\n"
        "    with open('/proc/self/smaps_rollup') as file: rows = dict(row.split(':', 1) for row in list(file)[1:])\n"
        "    return sum(int(rows[name].split()[0]) for name in ('Private_Clean', 'Private_Dirty')) * 1024\n"
        "small = view(text='x'); before = held()"
    )
    made = await b.run("big = view('big.log', freq='Sync')")
    assert made.displays[0].text.startswith("1\t2026-11-22 08:00:00 INFO worker[000000001]")
    asked = (
        f"seconds = []\nfor line in range({lines}, 1, -{lines // 40}):\n"
        "    started = time.perf_counter()\n    text = big.SetPos(str(line)).Render().text\n"
        "    seconds.append(time.perf_counter() - started)\n"
        "    assert f'INFO worker[{line:09}]' in text\n"
        "print(json.dumps([sorted(seconds)[20], held() - before]))"
    )
    outcome = await b.run(asked)
    assert outcome.exception is None, outcome.exception
    seconds, held = json.loads(outcome.stdout.text)
    assert seconds < 0.05  # ten times what it takes on a machine that does nothing else
    if isinstance(b.environment, WorkerEnvironment):
        assert held < MEMORY
    assert sum(map(len, {**made.contents, **outcome.contents}.values())) < 10 << 20
    assert all(event.size < 1 << 20 for event in outcome.events if isinstance(event, RevisionAdopted))
    ticked = await b.environment.tick(1, 1.0)
    assert (ticked.events, ticked.contents) == ((), {})
    _append(b.cwd / "big.log", b"the end\n")
    told = [event.delta for event in (await b.environment.tick(2, 2.0)).events if event.kind == "node_changed"]
    assert told == [f"big.log changed: 1 line added at the end, from line {lines + 1:,} on\n+the end"]


async def test_a_line_of_1_gb_is_shown_in_parts(b: AnyBench) -> None:
    _one_line(b.cwd / "line", LARGEST)
    first = await b.run("v = view('line', tokens=200)")
    assert first.displays[0].text.startswith("1\txxx")
    assert f"[{LARGEST - 2_000} characters left out]\n" in (await b.run("show(v, tokens=3_000)")).displays[0].text
    last = await b.run(f"show(v.SetPos('1:{LARGEST - 1}'), tokens=3_000)")
    assert last.displays[0].text.startswith(f"1\t[{LARGEST - 2_000} characters left out] ")
    assert last.displays[0].text.endswith("end\n")
    assert sum(map(len, last.contents.values())) < 1 << 20


async def test_a_file_above_1_gb_is_one_line_and_nothing_of_it_is_read(b: AnyBench) -> None:
    _one_line(b.cwd / "line", LARGEST + 1)
    outcome = await b.run("v = view('line')")
    assert outcome.displays[0].text.startswith("(line has 1,073,741,825 bytes; views read files up to 1,073,741,824;")
    assert outcome.time_ms < 1_000
    assert outcome.contents == {}


async def test_a_statement_that_reads_a_large_file_is_cancelled_and_its_time_limit_holds(b: AnyBench) -> None:
    _one_line(b.cwd / "line", LARGEST)
    (b.cwd / "small").write_text("small\n")
    await b.run("kept = [1, 2]")
    outcome = await b.interrupted("print('reading', flush=True); v = [view('line') for _ in range(9)]")
    assert outcome.status == "cancelled"
    outcome = await b.run("v = [view('line').Refresh() for name in range(9) if not print(end='')]", time_limit=0.1)
    assert outcome.status == "timeout"
    assert await b.value("kept, 'v' in globals(), view('small').rendered.text") == repr(([1, 2], False, "1\tsmall\n"))
