"""What handles show, saw and mean in any environment: looks, records, an editor's texts, and their end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.errors import EnvironmentUnavailableError
from engine.core.ids import ExecutionId
from engine.files.buffers import ONLY_IN_EDITOR
from engine.files.revision import LARGEST, digest_of
from engine.files.tails import FeedItem, News
from engine.log.events import Event
from engine.log.events.nodes import FileChanged, RevisionAdopted, TickApplied
from engine.log.past import PastExecution, PastRevision, PastTick
from engine.log.statements import RunOutcome, TickOutcome
from tests.support.environments import PATIENCE, AnyBench, Bench, Make, kept, opened, past, restore, spec_for, until
from tests.support.in_process import InProcessEnvironment


async def test_a_look_renders_what_is_named_within_a_budget(b: AnyBench, tmp_path: Path) -> None:
    assert (await b.environment.look(["a"])).rows == ()
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(400)))
    outcome = await b.run("a = view('a.txt', tokens=All); also = a; b = view(text='two'); n = 5")
    looked = await b.environment.look(["a", "n", "also"], 40)
    assert [row.name for row in looked.rows] == ["a", "b"]
    assert list(looked.shown) == ["a"]
    assert 20 < looked.shown["a"].tokens <= 40
    assert looked.shown["a"].budget == 40
    whole = (await b.environment.look(["a"])).shown["a"]
    assert whole == outcome.displays[0]
    assert (whole.first_line, whole.last_line, whole.lines) == (1, 400, 400)


async def test_what_a_tick_would_find_is_said_and_nothing_changes(b: AnyBench, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    await b.run("a = view('a.txt', freq='Sync')\nparked = view('a.txt')")
    assert list(await b.environment.foresee(5, 100.0)) == []
    file.write_text("one\ntwo\n")
    before = (await b.environment.look(["a"])).shown
    found = [await b.environment.foresee(5, 100.0) for _ in range(2)]
    line = "1 line changed in a.txt (+1 -0), first at line 2"
    assert [[item.text for item in items] for items in found] == [[line], [line]]
    assert (await b.environment.look(["a"])).shown == before
    ticked = (await b.environment.tick(5, 100.0)).events
    assert [event.delta for event in ticked if isinstance(event, TickApplied)] == [line]
    assert list(await b.environment.foresee(6, 100.0)) == []


async def test_a_confined_environment_shows_nothing_from_outside(make: Make, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("SECRET")
    (inside / "link").symlink_to(tmp_path / "secret.txt")
    environment = make()
    try:
        with pytest.raises(EnvironmentUnavailableError):
            await environment.look()
        await environment.start(replace(spec_for(inside), confined=True))
        shown = await Bench(environment, inside).run("view('link'); view('../secret.txt'); view('/proc/self/environ')")
        assert [("outside the workspace" in each.text, "SECRET" in each.text) for each in shown.displays] == [
            (True, False)
        ] * 3
    finally:
        await environment.close()


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


async def test_tick_counts_nodes_and_reports_what_they_saw(b: AnyBench) -> None:
    (b.cwd / "a.txt").write_text("one\n")
    await b.run("a = view('a.txt', freq='Sync'); b = view('a.txt'); c = view('none').Run()")
    first = await b.environment.tick(1, 1.0)
    assert (first.nodes, first.events, first.contents) == (2, (), {})
    (b.cwd / "a.txt").write_text("two, longer\n")
    second = await b.environment.tick(2, 2.0)
    assert [each.look for each in adopted(second.events)] == [0]
    assert list(second.contents.values()) == [b"two, longer\n"]


async def test_rebuild_replays_ticks_silently(b: AnyBench) -> None:
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


async def test_handles_are_read_when_the_host_says_so(b: AnyBench) -> None:
    (b.cwd / "a.txt").write_text("one\n")
    for ask in (lambda: b.environment.tick(1, 1.0), lambda: b.environment.project((), 0), lambda: b.run("1")):
        await b.run("a = view('a.txt').SetTokens(99)")
        assert ", changed" in (await b.environment.project((), 1000)).tail
        assert await b.value("a.changed") == "True"
        b.environment.read()
        await ask()
        assert await b.value("a.changed") == "False"
        assert ", changed" not in (await b.environment.project((), 1000)).tail


async def test_missing_content_is_reported_for_its_step(b: AnyBench) -> None:
    path = str(b.cwd / "a.txt")
    lost = PastRevision(path=path, look=0, state="text", digest=digest_of(b"one\n"), size=4, withheld=True)
    source = "a = view('a.txt', freq='Sync')"
    run = replace(past(source, label="<statement 1>"), revisions=(lost,), bound=("a",))
    run = replace(run, request=replace(run.request, index=1))
    tick = PastTick(round_id=3, now=1.0, revisions=(replace(lost, digest=digest_of(b"two\n")),))
    restored = await restore(b, run, tick)
    about = "looked at a.txt, but its earlier content contained a secret and was not saved"
    assert restored.divergences[0].startswith(f"<statement 1> {about}")
    restored = await restore(b, replace(run, revisions=()), tick)
    assert restored.divergences[0].startswith("<statement 1> looked at a.txt, but nothing of it is recorded")
    assert restored.divergences[1] == f"the tick after statement 1 {about}"
    restored = await restore(b, replace(run, revisions=None))
    assert restored.divergences[0].startswith("<statement 1> looked at a.txt, but its earlier content is not recorded")


@pytest.mark.slow
async def test_too_large_record_still_reports_its_looks(tmp_path: Path) -> None:
    data = (b"x" * (LONG - 1) + b"\n") * (LARGEST // LONG)
    (tmp_path / "a.txt").write_bytes(data)
    async with opened(InProcessEnvironment(len), tmp_path) as b:
        outcome = await b.run("vs = [view('a.txt', tokens=All) for _ in range(6)]")
        assert outcome.exception.type == "RecordError"
        assert [each.digest for each in adopted(outcome.events)] == [digest_of(data)]
        assert list(outcome.contents) == [digest_of(data)]
        assert adopted((await b.run("w = view('a.txt', tokens=20)", execution_id=ExecutionId("ex_after"))).events) == []


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


async def test_views_show_editor_text_and_ticks_ask_for_changes(b: AnyBench) -> None:
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


async def test_nothing_is_asked_without_an_offer(b: AnyBench) -> None:
    following(b, offers=False)
    assert (await b.run("a = view('a.txt').Run()")).status == "ok"
    assert (await b.environment.tick(1, 1.0)).events == ()
    b.environment.follow(None)
    assert (await b.run("a.Refresh()")).status == "ok"


async def test_a_statement_that_waits_for_an_editor_can_be_stopped(b: AnyBench) -> None:
    held = following(b)
    held.answers = anyio.Event()
    with anyio.fail_after(PATIENCE):
        async with b.running("a = view('a.txt')") as outcomes:
            while not held.questions:
                await anyio.lowlevel.checkpoint()
            b.environment.interrupt()
    assert [outcome.status for outcome in outcomes] == ["cancelled"]
    held.answers.set()
    assert await b.value("1 + 1") == "2"


async def test_new_namespace_asks_the_editor_again(b: AnyBench) -> None:
    held, path = following(b), str(b.cwd / "a.txt")
    held.by_path[path] = "one\n"
    await b.run("a = view('a.txt')")
    await restore(b)
    outcome = await b.run("a = view('a.txt')")
    assert list(outcome.contents.values()) == [b"one\n"]
    assert len(held.questions) == 2


async def test_live_or_ended_namespace_has_no_loss(b: AnyBench) -> None:
    assert await b.environment.loss() is None
    await b.run("x = 1")
    assert await b.environment.loss() is None
    await b.environment.end()
    assert await b.environment.loss() is None


async def test_abandoned_request_is_named_as_the_loss(b: AnyBench, tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await b.environment.look()
    assert not b.environment.alive
    assert await b.environment.loss() == "a request to the worker was abandoned"
    await b.environment.start(spec_for(tmp_path))
    assert await b.environment.loss() is None


async def test_loss_between_statements_names_the_workers_end(b: AnyBench) -> None:
    if isinstance(b.environment, InProcessEnvironment):
        pytest.skip("`os._exit` would end the test process")
    await b.run("import os, threading; threading.Timer(0.05, os._exit, (7,)).start()")
    with anyio.fail_after(PATIENCE):
        await until(lambda: not b.environment.alive)
    assert await b.environment.loss() == "the worker exited with code 7"
    assert await b.environment.loss() == "the worker exited with code 7"


IN_CYCLES = {
    "list": "held = [view(text='some')]; held.append(held)",
    "function": "def held(n=view(text='some')): return held\nheld.itself = held",
    "class": "class held:\n    view = view(text='some')",
}
"""Statements that leave a handle where only the collection of garbage finds that nothing reaches it."""
IN_AN_ERROR = """
def fail():
    at = view(text='some')
    try: 1 / 0
    except ZeroDivisionError as error: seen = error
    return seen
held = fail()
"""


async def handles(b: AnyBench) -> list[str]:
    """What a model is shown."""
    return [row.obj_id for row in (await b.environment.project((), 1000)).handles]


@pytest.mark.parametrize("source", [*IN_CYCLES.values(), IN_AN_ERROR], ids=[*IN_CYCLES, "error"])
async def test_handle_in_a_cycle_ends_with_its_statement(b: AnyBench, source: str) -> None:
    assert (await b.run(f"{source}\ndel held", index=1)).status == "ok"
    assert await handles(b) == []
