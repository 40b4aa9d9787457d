"""An environment asks what an editor holds in statements and ticks, is told what moved, and else says nothing of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import anyio
import pytest

from engine.files.buffers import ONLY_IN_EDITOR
from engine.log.events.nodes import FileChanged, RevisionAdopted
from engine.runtime.environment import Environment
from tests.support.environments import PATIENCE, Bench, restore

pytestmark = pytest.mark.anyio
AnyBench = Bench[Environment]


class Held:
    """What an editor holds; `questions` are the paths of each that came."""

    def __init__(self, *, offers: bool = True) -> None:
        self.offers = offers
        self.by_path: dict[str, str] = {}
        self.moved: list[str] = []
        self.questions: list[Sequence[str]] = []
        self.answers = anyio.Event()
        self.answers.set()
        self.looks = anyio.Event()
        self.looks.set()

    async def take_moved(self) -> Collection[str] | None:
        assert self.offers
        await self.looks.wait()
        moved, self.moved = self.moved, []
        return moved

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        assert self.offers
        self.questions.append(paths)
        await self.answers.wait()
        return {path: self.by_path.get(path) for path in paths}


def following(b: AnyBench, *, offers: bool = True) -> Held:
    held = Held(offers=offers)
    b.environment.follow(held)
    return held


async def test_views_show_what_an_editor_holds_and_ticks_ask_for_what_moved(b: AnyBench) -> None:
    held, path = following(b), str(b.cwd / "a.txt")
    held.by_path[path] = "one\n"
    outcome = await b.run("a = view('a.txt').Run(); c = view('c.txt').Run()")
    assert next(event.notice for event in outcome.events if isinstance(event, RevisionAdopted)) == ONLY_IN_EDITOR
    assert list(outcome.contents.values()) == [b"one\n"]
    held.questions.clear()
    assert (await b.environment.tick(1, 1.0)).events == ()
    assert held.questions == []
    held.by_path[path] = "two\n"
    held.moved = [path]
    changed = [event for event in (await b.environment.tick(2, 2.0)).events if isinstance(event, FileChanged)]
    assert [event.path for event in changed] == [path]
    assert held.questions == [(path,)]


async def test_where_nothing_is_offered_nothing_is_asked_and_nothing_is_sent(b: AnyBench) -> None:
    following(b, offers=False)
    assert (await b.run("a = view('a.txt').Run()")).status == "ok"
    assert (await b.environment.tick(1, 1.0)).events == ()
    b.environment.follow(None)
    assert (await b.run("a.Refresh()")).status == "ok"


async def test_a_statement_is_stopped_while_it_is_found_out_what_moved(b: AnyBench) -> None:
    held = following(b)
    held.looks = anyio.Event()
    outcomes: list[str] = []

    async def run() -> None:
        outcomes.append((await b.run("x = 1")).status)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            b.environment.interrupt()
            held.looks.set()
        assert outcomes == ["cancelled"]
        assert (await b.run("x")).status == "error"


async def test_a_statement_that_waits_for_an_editor_can_be_stopped(b: AnyBench) -> None:
    held = following(b)
    held.answers = anyio.Event()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            outcomes: list[str] = []

            async def run() -> None:
                outcomes.append((await b.run("a = view('a.txt')")).status)

            tasks.start_soon(run)
            while not held.questions:
                await anyio.lowlevel.checkpoint()
            b.environment.interrupt()
    assert outcomes == ["cancelled"]
    held.answers.set()
    assert await b.value("1 + 1") == "2"


async def test_a_new_namespace_knows_nothing_of_what_the_one_before_was_told(b: AnyBench) -> None:
    held, path = following(b), str(b.cwd / "a.txt")
    held.by_path[path] = "one\n"
    await b.run("a = view('a.txt')")
    await restore(b)
    outcome = await b.run("a = view('a.txt')")
    assert list(outcome.contents.values()) == [b"one\n"]
    assert len(held.questions) == 2
