"""What all processes of a worker hold together is bounded in statements and between them, whatever memory it is."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.support.environments import PATIENCE, until
from tests.support.workers import bench, processes_in

pytestmark = pytest.mark.anyio

LIMIT = 300 << 20
FILL = """
import mmap, os, time
SIZE = 100 << 20
def fill(memory):
    for start in range(0, len(memory), 1 << 20):
        memory[start:start + (1 << 20)] = b"x" * (1 << 20)
    return memory
def write(fd, size):
    for _ in range(size >> 20):
        os.write(fd, b"x" * (1 << 20))
    return fd
"""
TOO_MUCH = {
    "a mapping that is shared": "kept = fill(mmap.mmap(-1, 4 * SIZE))",
    "a memfd that is not mapped": "kept = write(os.memfd_create('kept'), 4 * SIZE)",
    "a memfd of which little is mapped": "fd = write(os.memfd_create('kept'), 4 * SIZE); fill(mmap.mmap(fd, 1 << 20))",
    "five children of which each may": "children = [os.fork() or (bytearray(SIZE), time.sleep(60)) for _ in range(5)]",
}
LITTLE = """
fd = os.memfd_create("kept")
os.truncate(fd, 2 * SIZE)
kept = fill(mmap.mmap(fd, 2 * SIZE))
children = [os.fork() or (kept[::4096], time.sleep(60)) for _ in range(3)]
time.sleep(0.8)
"""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if "not mapped" in kind else pytest.mark.slow) for kind in TOO_MUCH]
)
async def test_a_statement_whose_processes_hold_too_much_memory_is_ended(tmp_path: Path, kind: str) -> None:
    async with bench(tmp_path, data_bytes=LIMIT) as b:
        await b.run(FILL)
        outcome = await b.run(f"{TOO_MUCH[kind]}\ntime.sleep(60)")
        assert outcome.status == "error"
        assert outcome.exception is not None
        assert outcome.exception.type == "WorkerDied"
        assert "of memory, more than the 0.31 GB that they may" in outcome.exception.message


@pytest.mark.slow
async def test_what_is_shared_is_counted_once(tmp_path: Path) -> None:
    async with bench(tmp_path, data_bytes=LIMIT) as b:
        await b.run(FILL)
        outcome = await b.run(LITTLE)
        assert outcome.exception is None


@pytest.mark.slow
async def test_what_a_short_statement_leaves_is_bounded_between_statements(tmp_path: Path) -> None:
    async with bench(tmp_path, data_bytes=LIMIT) as b:
        await b.run(FILL)
        assert (await b.run(TOO_MUCH["five children of which each may"])).status == "ok"
        with anyio.fail_after(PATIENCE):
            await until(lambda: not b.environment.alive)
            await until(lambda: processes_in(tmp_path) == 0)
        loss = await b.environment.loss()
        assert loss is not None
        assert loss.startswith("what statements left running and its processes held ")
