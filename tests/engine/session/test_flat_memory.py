"""What a long session has in memory hardly grows, in the host or in the worker: here both are one process."""

from __future__ import annotations

import gc
import pathlib
import tracemalloc
from pathlib import Path
from typing import Final

import anyio
import pytest

from engine import Host, Settings
from engine.session.session import Session
from tests.support.sessions import in_process

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
BEFORE: Final = 150
"""Rounds until all is there that is bounded: the newest events and sources, what was read, Python's own caches."""
ROUNDS: Final = 250
STATEMENTS: Final = 4
"""Of a round, with the tick."""
MOST: Final = 600
"""Bytes for each of them."""
_OTHERS: Final = (
    # Python's table of interned strings, which doubles at times.
    tracemalloc.Filter(False, pathlib.__file__),
    tracemalloc.Filter(False, tracemalloc.__file__),
    tracemalloc.Filter(False, __file__),
)


async def play(session: Session, number: int) -> None:
    """A view anew in the place of another, a change of it, a change of its file, and a summary of all."""
    view, file = f"v{number % 7}", f"f{number % 7}.txt"
    instead = f", instead={view}" if number >= 7 else ""
    await session.cell(f"{view} = view({file!r}, tokens=100{instead}).Run(); show({view})")
    await session.cell(f"{view}.Scroll(1); show({view})")
    await anyio.Path(session.cwd, file).write_text(f"{number}\n")
    await session.tick()
    await session.cell("g = group('f*.txt', tokens=200); show(g)" if number == 0 else "show(g)")


def traced() -> tracemalloc.Snapshot:
    """What is in memory now."""
    gc.collect()
    return tracemalloc.take_snapshot().filter_traces(_OTHERS)


async def test_a_session_grows_by_a_few_bytes_for_each_statement(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for number in range(7):
        (project / f"f{number}.txt").write_text("one\ntwo\n")
    settings = Settings(state_dir=tmp_path / "state")
    tracemalloc.start()
    try:
        with anyio.fail_after(300):
            async with Host(settings, {}, environments=in_process) as host:
                session = await host.sessions.create(str(project))
                for number in range(BEFORE):
                    await play(session, number)
                before = traced()
                for number in range(BEFORE, BEFORE + ROUNDS):
                    await play(session, number)
                grown = traced().compare_to(before, "lineno")
    finally:
        tracemalloc.stop()
    each = sum(line.size_diff for line in grown) / (ROUNDS * STATEMENTS)
    assert each < MOST, [str(line) for line in grown[:10]]
