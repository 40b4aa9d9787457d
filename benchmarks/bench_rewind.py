"""How long it takes to go back past a slow statement, and what that costs the fast ones.

Each figure ends with the answer to a first statement afterwards, because the namespace is restored for that. Without
checkpoints, the slow statement would run again.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import anyio

from benchmarks.measuring import Setting, duration, row
from benchmarks.report import Row
from engine import Host, Session, Settings
from engine.core.settings import RestoreRule

SLOW_SECONDS: Final = 60
MOST_SECONDS: Final = 0.05
ROUNDS: Final = 21
MEGABYTES: Final = 200
_LIMIT: Final = 2.0
"""The time limit of statements where one exceeds it."""
_STUBBORN: Final = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
FAST_ROUNDS: Final = 300
MOST_RATIO: Final = 1.1


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    return anyio.run(_rows, setting)


async def _rows(setting: Setting) -> list[Row]:
    return [*await _past_a_slow_one(setting), await _after_a_time_limit(setting), await _fast(setting)]


async def _begin(stack: AsyncExitStack, rule: RestoreRule = "checkpoints", statement_seconds: float = 120.0) -> Session:
    """A session in a directory that ends with the block."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    settings = Settings(state_dir=Path(folder, "state"), restore_by=rule, statement_seconds=statement_seconds)
    host = await stack.enter_async_context(Host(settings, os.environ))
    return await host.sessions.create(folder)


async def _run(session: Session, source: str) -> None:
    finished = await session.cell(source)
    assert finished.status == "ok", finished.exception


async def _past_a_slow_one(setting: Setting) -> list[Row]:
    async with AsyncExitStack() as stack:
        session = await _begin(stack)
        slow = setting.size(SLOW_SECONDS)
        await _run(session, f"import time; x = bytearray({MEGABYTES << 20}); time.sleep({slow}); runs = [1]")
        await _run(session, "y = 2")
        await _run(session, "z = 3")
        times: dict[str, list[float]] = {"rewind": [], "switch": [], "edit": []}
        for number in range(setting.rounds(ROUNDS)):
            start = perf_counter()
            await session.rewind(2)
            await _run(session, "runs.append(1); assert len(runs) == 2")
            times["rewind"].append(perf_counter() - start)
            start = perf_counter()
            await session.switch("main")
            await _run(session, "z")
            times["switch"].append(perf_counter() - start)
            start = perf_counter()
            await session.edit(3, f"z = {number}; runs.append(1); assert len(runs) == 2", last=3)
            times["edit"].append(perf_counter() - start)
            await session.switch("main")
    what = {
        "rewind": f"rewind past a statement of {slow} s with {MEGABYTES} MB, and the next statement",
        "switch": "switch to the branch before it, and the next statement",
        "edit": f"edit of a fast statement after one of {slow} s, with its result",
    }
    return [_bar(what[name], median(seconds)) for name, seconds in times.items()]


async def _after_a_time_limit(setting: Setting) -> Row:
    async with AsyncExitStack() as stack:
        session = await _begin(stack, statement_seconds=_LIMIT)
        await _run(session, f"import time; time.sleep({0.9 * _LIMIT}); x = object(); first = id(x)")
        times = list[float]()
        for _ in range(setting.rounds(5)):
            assert (await session.cell(_STUBBORN)).status == "timeout"
            start = perf_counter()
            await _run(session, "assert id(x) == first")
            times.append(perf_counter() - start)
    return _bar(f"first statement after one that had to be killed, past a statement of {0.9 * _LIMIT} s", median(times))


async def _fast(setting: Setting) -> Row:
    async with AsyncExitStack() as stack:
        rules: dict[str, RestoreRule] = {"ours": "checkpoints", "without checkpoints": "re-execution"}
        subjects = {name: await _begin(stack, rule) for name, rule in rules.items()}
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for session in subjects.values():
            await _run(session, "import time; time.sleep(0.5)")
            await _run(session, "1")
        for _ in range(setting.rounds(FAST_ROUNDS)):
            for name, session in subjects.items():
                start = perf_counter()
                await _run(session, "3+3")
                times[name].append(perf_counter() - start)
    figures = {name: median(seconds) for name, seconds in times.items()}
    ratio = figures["ours"] / figures["without checkpoints"]
    return row(
        "a fast statement",
        figures,
        duration,
        bar=f"<= {MOST_RATIO} x",
        ratio=f"{ratio:.2f} x",
        met=ratio <= MOST_RATIO,
    )


def _bar(name: str, seconds: float) -> Row:
    return row(name, {"ours": seconds}, duration, bar=f"<= {duration(MOST_SECONDS)}", met=seconds <= MOST_SECONDS)
