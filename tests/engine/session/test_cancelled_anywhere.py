"""A statement that is cancelled at any line, its own or ours, has after a load left what it had left."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from engine import Session
from engine.log.events.execution import ExecutionFinished
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.session_compare import differences
from tests.support.session_probe import PROBE
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
ARMED, REACHED = "armed", "reached"
TRACER = f"""
import os, sys, time
a = [1]
class C:
    def __init__(self, n): self.n = n
def __stand(number):
    if not os.path.exists({ARMED!r}): return
    left = [number]
    def trace(frame, event, arg):
        left[0] -= 1
        if left[0]: return trace
        sys.settrace(None)
        os.close(os.open({REACHED!r}, os.O_CREAT))
        ends = time.monotonic() + 0.02
        while time.monotonic() < ends: pass
    sys._getframe(1).f_trace = trace
    sys.settrace(trace)
"""
STATEMENT = """
__stand({n})
v{n} = view('a.txt', mode='running')
held{n} = [v{n}, a]
def f{n}(h=v{n}): return h, a
o{n} = C(held{n})
u{n} = view('a.txt', pos='2')
w{n} = a
u{n}.SetTokens(50)
del w{n}
a.append({n})
"""


async def state(session: Session) -> dict[str, object]:
    finished = await session.cell("print(__probe())")
    return json.loads(finished.stdout.text.removeprefix("PROBE "))


async def cancelled_at(session: Session, folder: Path, number: int) -> str:
    """Runs the statement until that line is reached, and cancels it; its status."""
    reached = folder / REACHED
    reached.unlink(missing_ok=True)
    ended = anyio.Event()

    async def run() -> None:
        await session.accept(STATEMENT.format(n=number)).end()
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        while not (reached.exists() or ended.is_set()):  # noqa: ASYNC110 -- a process makes it, which tells nobody
            await anyio.sleep(0.001)
        session.cancel()
    return next(event.status for event in reversed(session.events) if isinstance(event, ExecutionFinished))


async def check(folder: Path, numbers: range) -> None:
    store = MemoryStore(FixedClock())
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    async with sessions_of(folder, store) as sessions:
        session = await sessions.create(str(folder))
        session.set_mode("auto")
        for source in (PROBE, TRACER):
            assert (await session.cell(source)).status == "ok"
        (folder / ARMED).touch()
        statuses = [await cancelled_at(session, folder, number) for number in numbers]
        (folder / ARMED).unlink()
        before = await state(session)
    assert statuses.count("cancelled") > len(numbers) // 2
    async with sessions_of(folder, store) as sessions:
        after = await state(await sessions.load(session.session_id))
    assert differences(before, after, set(), changed=False) == []


async def test_a_statement_that_is_cancelled_at_some_lines_left_what_it_had_left(tmp_path: Path) -> None:
    await check(tmp_path, range(1, 400, 57))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2, 58, 5))
async def test_a_statement_that_is_cancelled_anywhere_left_what_it_had_left(tmp_path: Path, first: int) -> None:
    await check(tmp_path, range(first, 1_500, 57))
