"""Steps of a history that the other side goes through by itself, in any environment: what the host gets to look at."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.errors import StoreError
from engine.core.ids import BlobDigest
from engine.log.past import RestorePlan
from engine.runtime.environment import Environment
from tests.support.environments import PATIENCE, contents, kept, opened
from tests.support.stretches import AnyBench, Looked, lived, restored

pytestmark = pytest.mark.anyio


async def test_what_comes_out_as_recorded_is_not_looked_at_by_the_host(b: AnyBench) -> None:
    steps = await lived(b, "import math", "def f(n): return n + 1", "x = [f(1)]", "x.append(f(2)); x", "1 / 0", "del f")
    found, looked = await restored(b, steps)
    assert (found.executions, found.divergences, looked.at) == (6, (), [])
    assert await b.value("x, 'f' in globals()") == "([2, 3], False)"


async def test_a_stretch_ends_with_the_first_statement_that_comes_out_differently(b: AnyBench) -> None:
    steps = await lived(b, "n = 1", "m = n + 1", "k = m + 1", "j = k + 1")
    steps[1] = replace(steps[1], request=replace(steps[1].request, source="m = n + 7"))
    found, looked = await restored(b, steps)
    assert looked.labels == ["<statement 2>"]
    assert found.executions == 4
    assert found.divergences == ("<statement 2> left another value in m (8 instead of 2); m set from what was kept",)
    # The next statement found what it had found, or it would have come out differently too.
    assert await b.value("n, m, k, j") == "(1, 2, 3, 4)"


async def test_what_is_printed_is_each_statements_own_and_the_host_compares_it(b: AnyBench) -> None:
    steps = await lived(
        b, "print('one')", "x = 1", "print('two'); import sys; print('three', file=sys.stderr)", "y = 2"
    )
    steps[1] = replace(steps[1], request=replace(steps[1].request, source="x = 1; print('more')"))
    found, looked = await restored(b, steps)
    assert looked.at == [
        ("<statement 1>", "ok", "one\n"),
        ("<statement 2>", "ok", "more\n"),
        ("<statement 3>", "ok", "two\n"),
    ]
    assert found.divergences == ("<statement 2> printed 'more' instead of nothing",)


async def test_each_statement_of_a_stretch_finds_streams_that_are_open(b: AnyBench) -> None:
    steps = await lived(b, "import sys; sys.stdout.close()", "print('there')", "sys.stderr.close()", "x = 1")
    found, looked = await restored(b, steps)
    assert (found.divergences, looked.at) == ((), [("<statement 2>", "ok", "there\n")])


async def test_more_than_a_pipe_holds_is_compared_as_one_statements(b: AnyBench) -> None:
    steps = await lived(b, "x = 1", "print('-' * 300_000)", "y = 2")
    found, looked = await restored(b, steps)
    assert found.divergences == ()
    assert looked.labels == ["<statement 2>"]


def acts(b: AnyBench, number: int) -> str:
    path = str(b.cwd / f"{number}.txt")
    return f"import io; n{number} = [{number}]; _ = io.FileIO({path!r}, 'w').close(); m{number} = [n{number}, {number}]"


async def test_a_statement_that_acted_gets_its_names_back_without_a_stop(b: AnyBench, tmp_path: Path) -> None:
    steps = await lived(b, *(acts(b, number) for number in range(12)), "m3[0].append(4); n3")
    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    visits: list[Collection[BlobDigest]] = []

    async def counted(digests: Collection[BlobDigest]) -> Mapping[BlobDigest, bytes | StoreError]:
        visits.append(digests)
        return await contents(digests)

    looked = Looked()
    with anyio.fail_after(PATIENCE):
        found = await b.environment.restore(RestorePlan(steps=tuple(steps)), counted, looked)
    assert [line.partition(" was kept")[0] for line in found.divergences] == [f"<statement {n}>" for n in range(1, 13)]
    assert all("set from what was kept" in line and "no copy" not in line for line in found.divergences)
    # The last one came out as recorded, although what it changes is shared between two names.
    assert looked.labels == [f"<statement {n}>" for n in range(1, 13)]
    assert len(visits) < 6
    assert await b.value("m3, m11") == "([[3, 4], 3], [[11], 11])"
    assert os.listdir(tmp_path) == []


async def test_a_copy_that_is_missing_is_named_as_where_the_host_brings_names_back(b: AnyBench) -> None:
    steps = await lived(b, "x = 1", acts(b, 1), "y = 2")
    (group,) = [each for each in steps[1].kept if "m1" in each.names]
    gone = replace(group, content=BlobDigest("0" * len(kept(b""))))
    steps[1] = replace(steps[1], kept=tuple(gone if each is group else each for each in steps[1].kept))
    found, _ = await restored(b, steps)
    (said,) = found.divergences
    assert "(its copy is missing in the store)" in said
    assert await b.value("x, y") == "(1, 2)"


async def test_a_name_that_could_not_be_set_is_named(b: AnyBench) -> None:
    steps = await lived(b, "x = 1", acts(b, 1), "y = 2")
    (group,) = [each for each in steps[1].kept if "m1" in each.names]
    damaged = replace(group, content=kept(b"no pickle"))
    steps[1] = replace(steps[1], kept=tuple(damaged if each is group else each for each in steps[1].kept))
    found, _ = await restored(b, steps)
    (said,) = found.divergences
    assert "no copy of m1, n1 (" in said
    assert await b.value("x, y") == "(1, 2)"


async def test_a_statement_that_takes_too_long_in_a_stretch_is_the_one_that_is_stopped(
    make: Callable[[], Environment], tmp_path: Path
) -> None:
    async with opened(make(), tmp_path, grace_seconds=2.0) as b:
        steps = await lived(b, "x = 1", "y = 2", "z = 3")
        # It catches its interrupt and comes out as recorded, and was stopped all the same.
        caught = "try:\n    exec('while True: pass')\nexcept KeyboardInterrupt: y = 2"
        steps[1] = replace(steps[1], request=replace(steps[1].request, source=caught, time_limit=0.1))
        found, looked = await restored(b, steps)
        assert [each[:2] for each in looked.at] == [("<statement 2>", "timeout")]
        assert found.executions == 3
        assert len(found.divergences) == 1
        assert await b.value("x, y, z") == "(1, 2, 3)"


async def test_a_restore_that_is_cancelled_in_a_stretch_leaves_no_half_namespace(b: AnyBench) -> None:
    steps = await lived(b, "x = 1", "y = 2", "z = 3")
    steps[1] = replace(steps[1], request=replace(steps[1].request, source="while True: pass"))
    looked = Looked()
    with anyio.move_on_after(0.2) as scope:
        await b.environment.restore(RestorePlan(steps=tuple(steps)), contents, looked)
    assert scope.cancelled_caught
    assert not b.environment.alive
    steps[1] = replace(steps[1], request=replace(steps[1].request, source="y = 2"))
    assert (await restored(b, steps))[0].divergences == ()
    assert await b.value("x, y, z") == "(1, 2, 3)"
