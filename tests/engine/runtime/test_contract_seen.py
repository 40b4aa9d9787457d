"""What nodes saw comes to the host with each step, and a rebuild is given it again, in any environment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.core.ids import BlobDigest, ExecutionId
from engine.files.revision import LARGEST, digest_of
from engine.files.tails import FeedItem, News
from engine.log.events import Event
from engine.log.events.nodes import FileChanged, RevisionAdopted
from engine.log.past import PastExecution, PastLooks, PastRevision, PastStep, PastTick
from engine.log.statements import STEP_CONTENT_BYTES, RunOutcome, TickOutcome
from engine.runtime.environment import Environment
from tests.support.environments import (
    Bench,
    kept,
    opened,
    past,
    restore,
)
from tests.support.in_process import InProcessEnvironment

pytestmark = pytest.mark.anyio
AnyBench = Bench[Environment]
LONG = 4_000


def adopted(events: Iterable[Event]) -> list[RevisionAdopted]:
    return [event for event in events if isinstance(event, RevisionAdopted)]


def seen(outcome: RunOutcome | TickOutcome) -> tuple[PastRevision, ...]:
    """As it is on the log, with the contents of this outcome kept."""
    return tuple(
        PastRevision(
            path=event.path,
            look=event.look,
            state=event.state,
            digest=event.digest,
            size=event.size,
            notice=event.notice,
            content=kept(outcome.contents[event.digest]) if event.digest in outcome.contents else None,
        )
        for event in adopted(outcome.events)
    )


def step(source: str, outcome: RunOutcome, index: int = 1) -> PastExecution:
    done = past(source)
    bound = (*outcome.diff.added, *outcome.diff.changed)
    return replace(done, request=replace(done.request, index=index), revisions=seen(outcome), bound=bound)


async def test_contents_come_with_the_statement_that_saw_them_once(b: AnyBench) -> None:
    (b.cwd / "a.txt").write_text("one\n")
    outcome = await b.run("a = view('a.txt'); none = view('none')")
    assert [(Path(each.path).name, each.state) for each in adopted(outcome.events)] == [
        ("a.txt", "text"), ("none", "missing"),
    ]  # fmt: skip
    assert outcome.contents == {digest_of(b"one\n"): b"one\n"}
    outcome = await b.run("again = view('a.txt')")
    assert ([event.kind for event in outcome.events], outcome.contents) == (["node_made"], {})
    outcome = await b.run("1 + 1")
    assert (outcome.events, outcome.contents) == ((), {})


@pytest.mark.slow
async def test_a_stopped_statement_says_what_it_saw_too(b: AnyBench) -> None:
    (b.cwd / "a.txt").write_text("one\n")
    outcome = await b.interrupted("a = view('a.txt')\nprint('now', flush=True)\nwhile True: pass")
    assert outcome.status == "cancelled"
    assert [each.state for each in adopted(outcome.events)] == ["text"]
    assert list(outcome.contents.values()) == [b"one\n"]


async def test_a_tick_says_how_many_nodes_ran_and_what_they_saw(b: AnyBench) -> None:
    (b.cwd / "a.txt").write_text("one\n")
    await b.run("a = view('a.txt', freq='Sync'); b = view('a.txt'); c = view('none').Run()")
    first = await b.environment.tick(1, 1.0)
    assert (first.nodes, first.events, first.contents) == (2, (), {})
    (b.cwd / "a.txt").write_text("two, longer\n")
    second = await b.environment.tick(2, 2.0)
    assert [each.look for each in adopted(second.events)] == [0]
    assert list(second.contents.values()) == [b"two, longer\n"]


@pytest.mark.slow
async def test_statements_and_ticks_see_again_what_they_saw(b: AnyBench) -> None:
    file = b.cwd / "a.txt"
    file.write_text("one\n")
    first = "a = view('a.txt', freq='Sync')"
    second = "times = a.last_tick_time, a.last_tick_turn; c = view('a.txt')"
    plan: list[PastStep] = [step(first, await b.run(first, index=1))]
    file.write_text("two, longer\n")
    ticked = await b.environment.tick(7, 123.5)
    plan += [PastTick(round_id=7, now=123.5, revisions=seen(ticked)), step(second, await b.run(second, index=2), 2)]
    file.write_text("three, longer still\n")
    restored = await restore(b, *plan)
    assert restored.divergences == ()
    assert await b.value("times") == "(123.5, 7)"
    assert await b.value("[v.rendered.text for v in (a, c)]") == repr(["1\ttwo, longer\n"] * 2)
    assert await b.value("a.obj_id, c.obj_id") == "('view-1.1', 'view-2.1')"
    outcome = await b.environment.tick(8, 124.0)
    assert [event.change for event in outcome.events if isinstance(event, FileChanged)] == ["modified"]
    assert list(outcome.contents.values()) == [b"three, longer still\n"]


async def test_a_rebuild_tells_nothing_of_its_ticks_and_the_handles_are_as_they_were(b: AnyBench) -> None:
    file = b.cwd / "a.txt"
    file.write_text("one\n")
    source = "a = view('a.txt', freq='Sync')"
    first = step(source, await b.run(source, index=1))
    file.write_text("two, longer\n")
    live = await b.environment.tick(1, 1.0)
    state = "a.GetDigest(), a.rendered.text, a.last_tick_turn, a.last_tick_time, a.changed"
    shown = await b.value(state)
    assert (await restore(b, first, PastTick(round_id=1, now=1.0, revisions=seen(live)))).divergences == ()
    assert await b.value(state) == shown
    news = News(items=(FeedItem("view-1.1", "+two"), FeedItem("", "news")))
    tails = [(await b.environment.project((), 1000, news)).tail for _ in range(2)]
    assert tails[0] == tails[1]
    assert "a: +two\nnamespace: news\n" in tails[0]
    assert "+two" not in (await b.environment.project((), 1000)).tail


async def test_handles_are_read_when_the_host_says_so_whatever_it_asks_next(b: AnyBench) -> None:
    (b.cwd / "a.txt").write_text("one\n")
    for ask in (
        lambda: b.environment.tick(1, 1.0),
        lambda: b.environment.project((), 0),
        lambda: b.run("1"),
    ):
        await b.run("a = view('a.txt').SetTokens(99)")
        assert ", changed" in (await b.environment.project((), 1000)).tail
        assert await b.value("a.changed") == "True"
        b.environment.read()
        await ask()
        assert await b.value("a.changed") == "False"
        assert ", changed" not in (await b.environment.project((), 1000)).tail


@pytest.mark.slow
async def test_what_steps_saw_that_are_not_in_the_plan_is_known(b: AnyBench) -> None:
    (b.cwd / "a.txt").write_text("one\n")
    before = PastLooks(revisions=seen(await b.run("a = view('a.txt')")))
    plan = [before, step("b = view('a.txt')", await b.run("b = view('a.txt')"))]
    (b.cwd / "a.txt").unlink()
    assert (await restore(b, *plan)).divergences == ()
    assert await b.value("b.rendered.text") == repr("1\tone\n")


async def test_what_is_not_to_be_had_is_said_of_the_step_that_saw_it(b: AnyBench) -> None:
    path = str(b.cwd / "a.txt")
    lost = PastRevision(path=path, look=0, state="text", digest=digest_of(b"one\n"), size=4, withheld=True)
    source = "a = view('a.txt', freq='Sync')"
    run = replace(past(source, label="<statement 1>"), revisions=(lost,), bound=("a",))
    run = replace(run, request=replace(run.request, index=1))
    tick = PastTick(round_id=3, now=1.0, revisions=(replace(lost, digest=digest_of(b"two\n")),))
    restored = await restore(b, run, tick)
    about = "looked at a.txt, whose content of then held a secret and was not kept"
    assert restored.divergences[0].startswith(f"<statement 1> {about}")
    restored = await restore(b, replace(run, revisions=()), tick)
    assert restored.divergences[0].startswith("<statement 1> looked at a.txt, of which nothing is recorded")
    assert restored.divergences[1] == f"the tick after statement 1 {about}"
    restored = await restore(b, replace(run, revisions=None))
    assert restored.divergences[0].startswith("<statement 1> looked at a.txt, and what it saw then is not recorded")


@pytest.mark.slow
async def test_what_the_store_has_lost_is_the_file_s_where_that_holds_it_still(b: AnyBench) -> None:
    file = b.cwd / "a.txt"
    file.write_text("one\n")
    source = "a = view('a.txt')"
    done = step(source, await b.run(source))
    assert done.revisions is not None
    lost = [replace(each, content=BlobDigest(f"blake2b-{0:040}")) for each in done.revisions]
    assert (await restore(b, replace(done, revisions=tuple(lost)))).divergences == ()
    assert await b.value("a.rendered.text") == repr("1\tone\n")
    file.write_text("two, longer\n")
    (said,) = (await restore(b, replace(done, revisions=tuple(lost)))).divergences
    assert "looked at a.txt, whose content of then is missing in the store" in said


@pytest.mark.slow
async def test_a_statement_that_views_more_than_is_kept_of_one_says_all_that_it_saw(b: AnyBench) -> None:
    data = (b"x" * (LONG - 1) + b"\n") * (LARGEST // LONG)
    for number in range(6):
        (b.cwd / f"{number}.txt").write_bytes(b"%d" % number + data[1:])
    source = "vs = [view(f'{n}.txt', tokens=20) for n in range(6)]"
    outcome = await b.run(source)
    assert len(adopted(outcome.events)) == 6
    assert sum(map(len, outcome.contents.values())) <= STEP_CONTENT_BYTES
    assert len(outcome.contents) == STEP_CONTENT_BYTES // len(data)
    done = step(source, outcome)
    for number in range(6):
        os.truncate(b.cwd / f"{number}.txt", 1)
    restored = await restore(b, done)
    about = "looked at {}.txt, whose content of then was too large to be kept"
    assert all(about.format(number) in line for number, line in zip((4, 5), restored.divergences, strict=False))
    assert await b.value("[len(v.revision.lines) > 1 for v in vs]") == repr([True] * 4 + [False] * 2)


@pytest.mark.slow
async def test_a_statement_whose_record_is_too_large_says_what_it_saw_all_the_same(tmp_path: Path) -> None:
    data = (b"x" * (LONG - 1) + b"\n") * (LARGEST // LONG)
    (tmp_path / "a.txt").write_bytes(data)
    async with opened(InProcessEnvironment(len), tmp_path) as b:
        outcome = await b.run("vs = [view('a.txt', tokens=All) for _ in range(6)]")
        assert outcome.exception is not None
        assert outcome.exception.type == "RecordError"
        assert [each.digest for each in adopted(outcome.events)] == [digest_of(data)]
        assert list(outcome.contents) == [digest_of(data)]
        assert adopted((await b.run("w = view('a.txt', tokens=20)", execution_id=ExecutionId("ex_after"))).events) == []
