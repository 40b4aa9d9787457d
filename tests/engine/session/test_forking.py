"""Forks and imports are sessions of their own, with what counts on their path and here."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import Session, Store, open_store
from engine.cli.transfer.jsonl import export_lines, import_lines
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
from tests.support.sessions import session_in, sessions_of, value_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("memory", marks=pytest.mark.slow)])
async def test_fork_has_the_active_path_and_is_independent(tmp_path: Path, kind: str) -> None:
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
        assert fork.names == session.names
        assert (fork.options, fork.cwd) == (session.options, session.cwd)
        assert fork.view.events[-1].event_id == session.view.events[-1].event_id
        assert await value_of(fork, "x, y") == await value_of(session, "x, y")
        assert await value_of(fork, "x = 1; x") == "1"
        assert await value_of(session, "y, x == 1") == "(1800, False)"
        ids = [event.event_id for event in fork.events]
        assert len(set(ids)) == len(ids)
        again = await sessions.fork(fork.session_id)
        assert await value_of(again, "x, y") == "(1, 1800)"
        assert [row.title for row in await sessions.rows(titled=True)] == ["import os; x = os.urandom(900).hex()"]
        for each in (fork, again):
            each.entitle()
            await value_of(each, "x")
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
            assert await value_of(session, "x, y") == "(1, 1800)"
            assert not cycles_of(session.events).anomalies
    store.close()


async def test_fork_of_a_busy_session_interrupts_the_run(tmp_path: Path) -> None:
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


def test_fork_takes_session_wide_facts_from_every_branch() -> None:
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


NEW = SessionId("ses_new")


async def imported(folder: Path, cwd: str, directories: list[str], store: MemoryStore) -> None:
    """A session whose file names these directories."""
    source = MemoryStore(FixedClock())
    async with session_in(folder, source, state=folder / "source") as session:
        await session.accept("1 + 1").end()
    header, *lines = export_lines(source, session.session_id)
    fields = json.loads(header) | {"cwd": cwd, "directories": directories}
    import_lines(store, io.BytesIO(b"".join([json.dumps(fields).encode() + b"\n", *lines])), "it", NEW)


async def test_an_import_is_refused_where_the_working_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, gone = tmp_path / "project", tmp_path / "gone"
    project.mkdir()
    gone.mkdir()
    store = MemoryStore(FixedClock())
    await imported(tmp_path, str(project), [], store)
    monkeypatch.chdir(gone)
    gone.rmdir()
    async with sessions_of(tmp_path / "here", store) as sessions:
        with pytest.raises(InvalidRequestError, match="only its file names the directory"):
            await sessions.load(NEW)


@pytest.mark.parametrize(("cwd", "directories"), [("/", []), ("{}", ["/"]), ("{}", ["{}/inner", "/etc"])])
async def test_only_somebody_here_says_that_it_works_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: str, directories: list[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    store = MemoryStore(FixedClock())
    await imported(tmp_path, cwd.format(project), [each.format(project) for each in directories], store)
    async with sessions_of(tmp_path / "here", store) as sessions:
        with pytest.raises(InvalidRequestError, match="was imported, and only its file names the directory /"):
            await sessions.load(NEW)
        session = await sessions.load(NEW, str(project), [])
        assert (session.cwd, session.directories) == (str(project), ())
        await sessions.close(NEW)
        again = await sessions.load(NEW)
        assert (again.cwd, again.directories) == (str(project), ())


ALL_RUN = (
    ".git/hooks",
    ".GIT/modules/x",
    "inner/.git",
    ".ssh",
    ".vscode",
    "link",
    "bare.git/hooks",
    "/proc/self/cwd/.git",
)


@pytest.mark.parametrize("named", ALL_RUN)
async def test_an_import_does_not_choose_a_place_from_which_others_run_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """Below such a directory nothing has a protected name, so a rewind would restore all of it."""
    project = tmp_path / "project"
    for place in (".git/hooks", ".GIT/modules/x", "inner/.git", ".ssh", ".vscode"):
        (project / place).mkdir(parents=True, exist_ok=True)
    for place in ("hooks", "objects", "refs"):
        (project / "bare.git" / place).mkdir(parents=True)
    (project / "bare.git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project / "bare.git" / "config").write_text("[core]\n\tbare = true\n")
    (project / "link").symlink_to(".git/hooks")
    monkeypatch.chdir(project)
    for cwd, directories in ((str(project / named), []), (str(project), [str(project / named)])):
        store = MemoryStore(FixedClock())
        source = tmp_path / str(len(directories))
        source.mkdir()
        await imported(source, cwd, directories, store)
        async with sessions_of(tmp_path / "here", store) as sessions:
            with pytest.raises(InvalidRequestError, match="was imported, and only its file names the directory /"):
                await sessions.load(NEW)
            await sessions.load(NEW, cwd, directories)  # whoever names it here may
            await sessions.close(NEW)


async def test_import_within_the_working_directory_follows_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project/inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    store = MemoryStore(FixedClock())
    await imported(tmp_path, str(tmp_path / "project"), [str(tmp_path / "project/inner")], store)
    async with sessions_of(tmp_path / "here", store) as sessions:
        assert (await sessions.load(NEW)).cwd == str(tmp_path / "project")
