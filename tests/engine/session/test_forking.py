"""A fork is a session of its own that goes on from the active path, with all that counts there and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from engine import Session, Sessions, Store, open_store
from engine.context.model import Prompt, StatementAsked, TextDelta
from engine.context.tail.sent_prompts import SentProjections, prompt_of
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError, SessionNotFoundError
from engine.core.ids import MAIN_BRANCH, EventId, ExecutionId, MessageId, Seq, SessionId
from engine.log.cycles import cycles_of
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import RunStop, UserMessage
from engine.log.events.execution import ValuesKept
from engine.log.events.going_back import BranchCreated, HeadMoved, RewindBegun
from engine.log.events.session import ConfigChanged, DomainEntered, ModeChanged, OthersWrote, ProjectionSent
from engine.log.facts import SessionFacts
from engine.log.store.memory import MemoryStore
from engine.session.reopening import forked
from tests.support.fixed import FixedClock
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.models import AnsweringModel
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


async def value(session: Session, source: str) -> str | None:
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    return finished.value


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("memory", marks=pytest.mark.slow)])
async def test_a_fork_has_the_active_path_and_goes_on_by_itself(tmp_path: Path, kind: str) -> None:
    store: Store = MemoryStore(FixedClock()) if kind == "memory" else open_store(tmp_path, SystemClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_option("while_running", "steer")
        await session.accept("import os; x = os.urandom(900).hex()").end()
        await session.accept("x = 'other'").end()
        session.set_mode("auto")
        await session.rewind(1)
        await session.accept("y = len(x)").end()
        fork = await sessions.fork(session.session_id)
        assert fork.session_id != session.session_id
        assert [row.name for row in fork.branches] == ["main"]
        assert [cell.statement.source for cell in fork.cells] == [cell.statement.source for cell in session.cells]
        assert (fork.options, fork.cwd) == (session.options, session.cwd)
        assert fork.view.events[-1].event_id == session.view.events[-1].event_id
        assert await value(fork, "x, y") == await value(session, "x, y")
        assert await value(fork, "x = 1; x") == "1"
        assert await value(session, "y, x == 1") == "(1800, False)"
        ids = [event.event_id for event in fork.events]
        assert len(set(ids)) == len(ids)
        again = await sessions.fork(fork.session_id)
        assert await value(again, "x, y") == "(1, 1800)"
        assert [row.title for row in await sessions.rows(titled=True)] == ["import os; x = os.urandom(900).hex()"]
        for each in (fork, again):
            each.entitle()
            await value(each, "x")
        rows = {row.session_id: row.title for row in await sessions.rows()}
        assert rows == dict.fromkeys(
            (session.session_id, fork.session_id, again.session_id), "import os; x = os.urandom(900).hex()"
        )
        forks, first = (fork.session_id, again.session_id), session.session_id
        await sessions.close(first)
        await sessions.delete(first)
    async with sessions_of(tmp_path, store) as sessions:
        for forked_id in forks:
            session = await sessions.load(forked_id)
            assert await value(session, "x, y") == "(1, 1800)"
            assert not cycles_of(session.events).anomalies
    store.close()


async def test_a_fork_of_a_session_that_is_busy_has_the_run_as_interrupted(tmp_path: Path) -> None:
    forks: list[Session] = []

    async def meanwhile(moment: Moment) -> None:
        if moment == "run" and not forks:
            forks.append(await sessions.fork(session.session_id))

    async with sessions_of(tmp_path, environments=lambda: HollowEnvironment(meanwhile)) as sessions:
        session = await sessions.create(str(tmp_path))
        tickets = [session.accept(text) for text in ("x = 1", "y = 2")]
        for ticket in tickets:
            assert (await ticket.end()).cause == "end_turn"
        (fork,) = forks
        stop = next(event for event in reversed(fork.events) if isinstance(event, RunStop))
        assert (stop.reason, stop.detail) == ("error", "interrupted")
        assert [cell.finished.status for cell in fork.cells if cell.finished] == ["cancelled"]
        cycles = cycles_of(fork.events)
        assert not cycles.anomalies
        assert not cycles.queue
        assert (await fork.accept("z = 3").end()).cause == "end_turn"
        assert len(session.cells) == len(fork.cells) == 2


async def test_what_cannot_be_forked_leaves_nothing(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        with pytest.raises(SessionNotFoundError):
            await sessions.fork(SessionId("ses_none"))
        for cwd in ("relative", str(tmp_path / "missing")):
            with pytest.raises(InvalidRequestError):
                await sessions.fork(session.session_id, cwd)
        with pytest.raises(InvalidRequestError):
            await sessions.fork(session.session_id, str(tmp_path), ["relative"])
        assert [row.session_id for row in await sessions.rows()] == [session.session_id]


async def test_a_fork_may_work_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with sessions_of(tmp_path, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        fork = await sessions.fork(session.session_id, str(elsewhere), [str(tmp_path)])
        assert (fork.cwd, fork.directories) == (str(elsewhere), (str(tmp_path),))
        assert (session.cwd, session.directories) == (str(tmp_path), ())


def log_of(*events: Event) -> EventLog:
    log = EventLog(FixedClock(), lambda _: None)
    for event in events:
        log.append(event)
    return log


def test_what_holds_for_the_whole_session_is_taken_from_every_branch_and_positions_are_those_of_the_fork() -> None:
    message = UserMessage(message_id=MessageId("m"), text="m")
    log = log_of(message, message)
    b1 = log.branches.next_name
    for event in (
        BranchCreated(branch=b1, parent=log.branches.active, before=Seq(1)),
        ModeChanged(mode="plan"),
        HeadMoved(branch=b1, left=log.branches.active, statement=0),
        ConfigChanged(option="while_running", value="steer"),
        ProjectionSent(round_id=0, position=6, size=9),
        RewindBegun(statement=0, since=Seq(4)),
        RewindBegun(statement=0, since=Seq(4), cancelled=True),
        ValuesKept(execution_id=ExecutionId("elsewhere")),
    ):
        log.append(event)
    events = forked(log.events)
    assert [event.kind for event in events] == [
        "user_message", "mode_changed", "head_moved", "config_changed", "projection_sent"
    ]  # fmt: skip
    assert [event.seq for event in events] == list(range(5))
    assert [event.event_id for event in events] == ["e0", "e3", "e4", "e5", "e6"]
    assert {event.branch_id for event in events} == {"main"}
    assert isinstance(events[-1], ProjectionSent)
    assert events[-1].position == 4
    again = EventLog(FixedClock(), lambda _: None)
    again.load(events)
    again.append(message)
    assert again.events[-1].event_id == "e7"


def test_ids_that_are_no_numbers_are_not_counted_on_from() -> None:
    event = UserMessage(seq=Seq(0), event_id=EventId("e٣"), message_id=MessageId("m"), text="m")
    for foreign in ("e٣", "e", "", "x", "e" + "9" * 5_000):
        log = EventLog(FixedClock(), lambda _: None)
        log.load([replace(event, event_id=EventId(foreign))])
        log.append(UserMessage(message_id=MessageId("m"), text="m"))
        assert log.events[-1].event_id == "e1"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))])
async def test_whatever_was_done_a_fork_reads_as_the_branch_does(tmp_path: Path, seed: int) -> None:
    """After branches, queues, cancels, summaries and reloads a session made of the path alone says the same."""
    chance = Random(seed)

    def answer(prompt: Prompt) -> list[StatementAsked | TextDelta]:
        asked = [StatementAsked(f"x = {chance.randrange(9)}", typed=True)] if chance.random() < 0.7 else []
        return [TextDelta("word " * chance.choice((1, 400))), *asked]

    store, model = MemoryStore(FixedClock()), AnsweringModel(answer)
    settings: dict[str, object] = {"context_budget": 6_000, "max_rounds": 4}
    async with sessions_of(tmp_path, store, model=model, environments=HollowEnvironment, settings=settings) as sessions:
        session = await sessions.create(str(tmp_path))
        for _ in range(30):
            session = await _act(sessions, session, chance)
            assert not cycles_of(session.path).anomalies
        _assert_rebuilt(session.events, model.prompts, store)
        for branch in session.branches:
            if not branch.is_active:
                await session.switch(branch.name)
            await _assert_same(session, await sessions.fork(session.session_id))


async def _act(sessions: Sessions, session: Session, chance: Random) -> Session:
    others = [row.name for row in session.branches if not row.is_active]
    back = f"/rewind {chance.randint(0, len(session.cells))}"
    over = f"/branch {chance.choice(others)}" if others else back
    match chance.randrange(6):
        case 0:
            await session.accept("/compact").end()
        case 1:
            texts = ("go", back, "then", over, "/context", "and then")
            tickets = [session.accept(text) for text in chance.sample(texts, 4)]
            session.cancel(chance.choice([None, *tickets])) if chance.random() < 0.3 else None
            for ticket in tickets:
                await ticket.end()
        case 2:
            await session.accept(back).end()
        case 3:
            await session.cell("y = 1")
        case 4:
            await sessions.close(session.session_id)
            return await sessions.load(session.session_id)
        case _:
            await session.accept("go").end()
    return session


async def _assert_same(session: Session, fork: Session) -> None:
    """What either reads of its path is the same."""
    assert [cell.statement.source for cell in session.cells] == [cell.statement.source for cell in fork.cells]
    for reading in ("indices", "tool_loop_ranges", "batches", "unhandled_condensation_request"):
        assert getattr(session.view, reading) == getattr(fork.view, reading)
    assert _plain(session.view.ready()) == _plain(fork.view.ready())
    here, there = await session.projection(), await fork.projection()
    assert _plain(here.prompt.messages) == _plain(there.prompt.messages)
    assert (here.used, here.prompt.tail) == (there.used, there.prompt.tail)
    assert session.names == fork.names


def _plain(events: tuple[Event, ...]) -> list[Event]:
    return [replace(event, seq=Seq(0), branch_id=MAIN_BRANCH) for event in events]


def _assert_rebuilt(log: Sequence[Event], prompts: Sequence[Prompt], store: Store) -> None:
    """What each call read can be said afterwards, on whatever branch it was made."""
    sent = SentProjections()
    for event in log:
        sent.apply(event)
    assert len(sent.calls) == len(prompts)
    for call, prompt in zip(sent.calls, prompts, strict=True):
        rebuilt = prompt_of(call, sent.messages_of(call), log, store.blob_get)
        assert (rebuilt.messages, rebuilt.tail) == (prompt.messages, prompt.tail)


def test_fork_distrusts_what_statements_of_other_branches_could_write() -> None:
    log = EventLog(FixedClock(), lambda _: None)
    other = log.branches.next_name
    log.append(OthersWrote(by="model"))
    left = log.append(DomainEntered(held=True, writable=("/work",)))
    log.append(BranchCreated(branch=other, parent=MAIN_BRANCH, before=left))
    log.append(HeadMoved(branch=other, left=MAIN_BRANCH, statement=0))
    facts = SessionFacts()
    for event in forked(log.events):
        facts.apply(event)
    assert list(facts.writable) == ["/work"]
