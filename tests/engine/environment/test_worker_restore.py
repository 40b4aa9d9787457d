"""What only a worker's restore meets: statements that start processes, and statements that end theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.environments import past, restore
from tests.support.workers import bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "source",
    [
        "import os; os.posix_spawn('/usr/bin/touch', ['touch', 'g.txt'], {})",
        "import os; os.spawnlp(os.P_WAIT, 'touch', 'touch', 'g.txt')",
        "import os; os.execlp('touch', 'touch', 'g.txt')",
        "import os\nif os.fork() == 0:\n    os.system('touch g.txt'); os._exit(0)\nos.wait()",
        "import threading\nraised = []\n"
        "def work():\n    try: open('g.txt', 'w')\n    except Exception as e: raised.append(e)\n"
        "t = threading.Thread(target=work); t.start(); t.join()\nraise raised[0]",
    ],
)
async def test_a_replay_starts_nothing_and_its_threads_write_nothing(tmp_path: Path, source: str) -> None:
    async with bench(tmp_path) as b:
        restored = await restore(b, past("x = 1"), past(source, label="<statement 9>"), past("y = 2"))
        assert any("<statement 9> was kept from" in line for line in restored.divergences)
        assert any("instead of ok" in line and "ReplayEffect" in line for line in restored.divergences)
        assert await b.value("x, y") == "(1, 2)"
    assert os.listdir(tmp_path) == []


async def test_an_execution_that_ends_its_worker_is_left_out(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        restored = await restore(
            b, past("x = 1"), past("import os; os._exit(1)", label="<statement 2>"), past("x += 1")
        )
        assert restored.executions == 2
        assert restored.divergences == ("<statement 2> ended the worker and was left out",)
        assert await b.value("x") == "2"
