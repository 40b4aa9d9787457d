"""What only a worker's stretches meet: its death, output of C code, and what waits in its pipes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.errors import StoreError
from engine.core.ids import BlobDigest
from engine.log.past import Restored, RestorePlan
from engine.log.statements import EffectAnswer
from tests.support.environments import PATIENCE, contents, past_answer
from tests.support.stretches import Looked, lived, restored
from tests.support.workers import bench

pytestmark = pytest.mark.anyio

LEAVES = "import os; os._exit(3)"


async def test_the_statement_at_which_two_workers_die_in_a_stretch_is_left_out_and_no_other(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        steps = await lived(b, *(f"x{number} = {number}" for number in range(12)))
        steps[6] = replace(steps[6], request=replace(steps[6].request, source=LEAVES))
        found, _ = await restored(b, steps)
        assert [line.partition(";")[0] for line in found.divergences] == [
            "<statement 7> ended the worker and was left out"
        ]
        assert found.executions == 11
        assert await b.value("[*globals()].count('x6'), x5, x6, x7") == "(1, 5, 6, 7)"


async def test_a_worker_that_dies_once_in_a_stretch_costs_no_statement(tmp_path: Path) -> None:
    was_lost = tmp_path / "lost"
    attempts: list[object] = []

    async def counted(digests: Collection[BlobDigest]) -> Mapping[BlobDigest, bytes | StoreError]:
        attempts.append(digests)
        if len(attempts) > 1:
            was_lost.touch()
        return await contents(digests)

    async with bench(tmp_path) as b:
        steps = await lived(b, *(f"x{number} = {number}" for number in range(12)))
        # Each attempt needs this once.
        steps[0] = replace(steps[0], answers=(past_answer(EffectAnswer(value=1)),))
        source = f"x6 = 6\nif not __import__('os').path.exists({str(was_lost)!r}): __import__('os')._exit(3)"
        steps[6] = replace(steps[6], request=replace(steps[6].request, source=source))
        looked = Looked()
        with anyio.fail_after(PATIENCE):
            found = await b.environment.restore(RestorePlan(steps=tuple(steps)), counted, looked)
        assert (found, looked.at) == (Restored(executions=12), [])
        assert len(attempts) == 2


async def test_a_copy_whose_loading_ends_the_worker_is_not_loaded_again(tmp_path: Path) -> None:
    ends = "class Ends:\n    def __setstate__(self, state):\n        import os; os._exit(3)\n"
    async with bench(tmp_path) as b:
        acts = "import pathlib; _ = pathlib.Path('f.txt').write_text('x'); ends = Ends(); ends.a = 1"
        steps = await lived(b, "x = 1", ends, acts, "y = 2")
        (tmp_path / "f.txt").unlink()
        found, _ = await restored(b, steps)
        (said,) = found.divergences
        assert "no copy of _, ends (loading its copy ended the worker)" in said
        assert await b.value("x, y") == "(1, 2)"


@pytest.mark.parametrize(
    "source",
    [
        "import os; x = os.write(1, b'abc')",
        "import ctypes; c = ctypes.CDLL(None); _ = c.puts(b'abc')",
        "import os, sys; x = os.write(2, b'abc')",
    ],
)
async def test_what_goes_past_pythons_streams_is_compared_too(tmp_path: Path, source: str) -> None:
    async with bench(tmp_path) as b:
        steps = await lived(b, "w = 1", source, "y = 2")
        found, looked = await restored(b, steps)
        assert (found.divergences, looked.labels) == ((), ["<statement 2>"])
        without = replace(steps[1], request=replace(steps[1].request, source=source.replace("b'abc'", "b'abd'")))
        found, _ = await restored(b, [steps[0], without, steps[2]])
        assert len(found.divergences) == 1


async def test_a_statement_that_prints_without_end_in_a_stretch_is_stopped_by_its_time_limit(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=2.0) as b:
        steps = await lived(b, "x = 1", "y = 2", "z = 3")
        endless = replace(steps[1].request, source="while True: print('-' * 1000)", time_limit=0.2)
        found, looked = await restored(b, [steps[0], replace(steps[1], request=endless), steps[2]])
        assert [each[:2] for each in looked.at] == [("<statement 2>", "timeout")]
        assert await b.value("x, y, z") == "(1, 2, 3)"
        assert found.divergences[-1] == "<statement 2> did not bind y; y set from what was kept"
