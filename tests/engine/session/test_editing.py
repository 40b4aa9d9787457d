"""Another source in the place of an earlier statement: its branch, its differences, its files."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine import PermissionAnswer, Session, Store
from engine.core.clock import SystemClock
from engine.core.errors import EnvironmentUnavailableError, InvalidRequestError, StatementWithdrawnError
from engine.core.ids import SessionId
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.conversation import AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import EffectAnswered, ExecutionFinished, ExecutionStarted, FileWritten
from engine.log.events.going_back import EditBegun
from engine.log.events.session import EnvironmentRestored
from engine.log.permissions import StatementSubject
from engine.log.store.memory import MemoryStore
from engine.session.requests import EditMode
from tests.support.fixed import CountingEntropy
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.models import AnsweringModel, runs, says
from tests.support.permissions import FixedPermissions
from tests.support.sessions import events_of, in_process, session_in, sessions_of, value_of

pytestmark = pytest.mark.anyio
STATEMENTS = (
    "x = 2",
    "text = read('notes.txt')",
    "y = x * 10",
    "w = write(f'out-{y}.txt', text); done = True",
    "print(y, text)",
)
Opened = Callable[[], AbstractAsyncContextManager[Session]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Opens the one session of the test, again where it is there, and runs STATEMENTS the first time."""
    (tmp_path / "notes.txt").write_text("before\n")
    store: Store = MemoryStore(SystemClock())
    entropy = CountingEntropy()
    known: list[SessionId] = []

    @asynccontextmanager
    async def session() -> AsyncGenerator[Session]:
        async with sessions_of(tmp_path, store, entropy=entropy) as sessions:
            if known:
                yield await sessions.load(known[0])
                return
            made = await sessions.create(str(tmp_path))
            known.append(made.session_id)
            for source in STATEMENTS:
                await made.accept(source).end()
            yield made

    return session


def written(session: Session) -> list[str]:
    return [Path(event.path).name for event in events_of(session, FileWritten)]


async def test_statements_after_an_edit_rerun_on_their_branch(opened: Opened, tmp_path: Path) -> None:
    async with opened() as session:
        before = session.path
        (tmp_path / "notes.txt").write_text("after\n")
        report = await session.edit(3, "y = x * 100")
        assert (report.outcome, report.branch, [each.status for each in report.executions]) == (
            "completed",
            "b1",
            ["ok", "error", "ok"],  # the file has another name now, and nothing is written
        )
        assert {(each.statement, each.aspect) for each in report.divergences} >= {(3, "diff"), (5, "stdout")}
        assert [await value_of(session, name) for name in ("y", "text", "'done' in dir()")] == [
            "200",
            "'before\\n'",
            "False",
        ]
        assert written(session) == ["out-20.txt"]
        assert not (tmp_path / "out-200.txt").exists()
        await session.switch("main")
        assert session.path[: len(before)] == before
        assert await value_of(session, "y") == "20"
    async with opened() as session:
        await session.switch("b1")
        assert await value_of(session, "y, 'done' in dir()") == "(200, False)"


async def test_the_same_question_gets_the_recorded_answer_once(opened: Opened, tmp_path: Path) -> None:
    async with opened() as session:
        (tmp_path / "notes.txt").write_text("after\n")
        report = await session.edit(2, "text = read('notes.txt'); again = read('notes.txt')", 4)
        assert [each.status for each in report.executions] == ["ok", "ok", "ok"]
        assert await value_of(session, "text, again, done") == "('before\\n', 'after\\n', True)"
        assert written(session) == ["out-20.txt"]
        assert sum(isinstance(event, EffectAnswered) for event in session.path) == 3


async def test_edit_repeats_own_writes_only_when_live(opened: Opened, tmp_path: Path) -> None:
    async with opened() as session:
        path = tmp_path / "own.txt"
        await session.cell(f"import pathlib; size = pathlib.Path({str(path)!r}).write_text('x' * y)")
        report = await session.edit(3, "y = 3")
        assert [each.status for each in report.executions] == ["ok", "error", "ok", "error"]
        assert path.read_text() == "x" * 20
        await session.edit(3, "y = 4", mode="live")
        assert path.read_text() == "x" * 4


async def test_file_changed_since_an_answer_is_not_overwritten(opened: Opened, tmp_path: Path) -> None:
    async with opened() as session:
        (tmp_path / "notes.txt").write_text("theirs\n")
        assert (await session.edit(1, "x = 2; new = True")).outcome == "completed"
        refused = (await session.cell("write('notes.txt', 'mine\\n')")).exception
        assert refused is not None
        assert refused.message.startswith("notes.txt has changed since it was last read; ")
        assert "-before\n+theirs" in refused.message
        assert (tmp_path / "notes.txt").read_text() == "theirs\n"
        # Where nothing is lost nothing is refused, and who writes what is there knows it.
        assert (await session.cell("write('notes.txt', 'theirs\\n')")).status == "ok"
        assert (await session.cell("write('notes.txt', 'mine\\n')")).status == "ok"


async def test_an_edit_leaves_a_conversation_without_anomalies(opened: Opened) -> None:
    async with opened() as session:
        await session.edit(3, "y = 7")
        assert not cycles_of(session.path).anomalies
        view = session.view.ready()
        calls = [event.arguments["source"] for event in view if isinstance(event, ToolCall)]
        assert calls == [*STATEMENTS[:2], "y = 7", *STATEMENTS[3:]]
        assert sum(isinstance(event, ToolResult) for event in view) == len(calls)
        assert [event.text for event in view if isinstance(event, UserMessage)][-1] == "/edit 3\ny = 7"
        assert isinstance(session.path[-1], RunStop)


@pytest.mark.parametrize(
    ("number", "source", "last", "sentence"),
    [
        (9, "1", None, "There is no statement 9; the statements are numbered from 1 to 5."),
        (3, "1", 2, "Statement 3 comes after statement 2"),
        (3, " \n", None, "The statement to run in place of 3 is missing: write it on the lines after"),
        (3, "x =", None, "The new statement is not Python: invalid syntax"),
        (3, "x = '\0'", None, "The new statement is not Python"),
    ],
)
async def test_what_cannot_be_edited_changes_nothing(
    opened: Opened, number: int, source: str, last: int | None, sentence: str
) -> None:
    async with opened() as session:
        with pytest.raises(InvalidRequestError, match=sentence.replace("(", "\\(")):
            await session.edit(number, source, last)
        assert [row.name for row in session.branches] == ["main"]
        assert await value_of(session, "y") == "20"
        assert not [event for event in session.view.ready() if isinstance(event, UserMessage) and "/edit" in event.text]


async def test_a_cancelled_edit_goes_back_to_where_it_was(opened: Opened) -> None:
    async with opened() as session:
        subscription = session.subscribe()

        async def cancel() -> None:
            async for batch in subscription.batches(pace=0):
                if any(isinstance(item, ExecutionStarted) for item in batch):
                    session.cancel()
                    return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            with pytest.raises(StatementWithdrawnError):
                await session.edit(3, "import time; time.sleep(60)")
        assert [row.name for row in session.branches if row.is_active] == ["main"]
        assert await value_of(session, "y") == "20"
        assert not [event for event in session.view.ready() if isinstance(event, UserMessage) and "/edit" in event.text]
        asked = [event for event in session.path if isinstance(event, UserMessage) and "/edit" in event.text]
        assert [event.aside for event in asked] == [True]
        stops: list[Event] = [event for event in session.path if isinstance(event, RunStop)]
        assert len(stops) == len(STATEMENTS) + 2


class Killed(MemoryStore):
    """Keeps what was committed before its process died."""

    def kill(self, session_id: SessionId, committed: int) -> None:
        del self._events[session_id][committed:]
        self._rows[session_id] = replace(self._rows[session_id], events=committed)


@pytest.mark.parametrize(("last", "branch"), [("begun", "main"), ("first", "main"), ("all", "b1")])
async def test_killed_edit_goes_back_unless_all_has_run(tmp_path: Path, last: str, branch: str) -> None:
    store = Killed(SystemClock())
    async with sessions_of(tmp_path, store, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in ("x = 1", "y = 2"):
            await session.accept(source).end()
        assert (await session.edit(1, "x = 3")).branch == "b1"
        (begun,) = [event.seq for event in session.path if isinstance(event, EditBegun)]
        ended = [event.seq for event in session.path if isinstance(event, ExecutionFinished) and event.seq > begun]
    store.kill(session.session_id, {"begun": begun, "first": ended[0], "all": ended[1]}[last] + 1)
    for _ in range(2):
        async with sessions_of(tmp_path, store, environments=HollowEnvironment) as sessions:
            session = await sessions.load(session.session_id)
            assert [row.name for row in session.branches if row.is_active] == [branch]
            sources = [cell.statement.source for cell in session.cells]
            assert sources == (["x = 1", "y = 2"] if branch == "main" else ["x = 3", "y = 2"])
            assert not cycles_of(session.path).anomalies


async def test_a_lost_worker_ends_an_edit_where_it_is(opened: Opened) -> None:
    async with opened() as session:
        report = await session.edit(4, "import os; os._exit(3)")
        assert (report.outcome, report.detail, report.branch) == ("failed", "statement 4 ended the worker", "b1")
        assert await value_of(session, "y") == "20"


async def test_stopped_and_omitted_statements_do_not_rerun_after_an_edit(opened: Opened) -> None:
    async with opened() as session:
        await session.cell("stopped = 1\nwhile True: pass", seconds=0.2)
        await session.cell("z = y")
        await session.accept("/omit 4").end()
        report = await session.edit(3, "y = 7")
        assert report.not_run == (
            "statement 4 of main is left out, as the user asked",
            "statement 6 of main was stopped (timeout) and is not run again; its values are not restored",
        )
        assert [each.status for each in report.executions] == ["ok", "ok", "ok"]
        # By their numbers on the branch that is active now.
        assert {each.statement for each in report.divergences} == {3, 4, 5}
        assert await value_of(session, "z, 'stopped' in dir()") == "(7, False)"


async def test_unknown_edit_mode_is_answered_with_the_known_ones(opened: Opened) -> None:
    async with opened() as session:
        await session.accept("/edit 1 --dry\nx = 3").end()
        said = [event.text for event in session.path if isinstance(event, AgentText)][-1]
        assert said == "'--dry' is not an option here; the options are `--recorded`, `--live`."


async def test_an_edited_statement_runs_also_if_it_was_stopped(opened: Opened) -> None:
    async with opened() as session:
        await session.cell("while True: pass", seconds=0.2)
        report = await session.edit(6, "stopped = False")
        assert ([each.status for each in report.executions], report.not_run) == (["ok"], ())


async def test_live_edit_asks_about_model_statements_and_skips_rejected_ones(tmp_path: Path) -> None:
    model = AnsweringModel(runs("x = 1", "y = x", "z = y", typed=False))
    answers = [PermissionAnswer(outcome=each) for each in ("allowed", "allowed", "rejected", "allowed", "rejected")]
    user = FixedPermissions(answers)
    async with session_in(tmp_path, model=model, environments=in_process) as session:
        session.attach(user)
        await session.accept("go").end()
        first = await session.edit(1, "x = 5", mode="live")
        assert (first.outcome, first.not_run) == ("completed", ("statement 3 of main has never run",))
        assert user.questions[-1].subject == StatementSubject("y = x")
        second = await session.edit(1, "x = 6", mode="live")
        assert (second.outcome, second.detail) == ("failed", "statement 2 was not allowed to run again")
        assert await value_of(session, "x, 'y' in dir()") == "(6, False)"


OPENING = (
    "x = 1",
    "with open('a', 'w') as f: wrote = f.write(f'{x}\\n')",
    "with open('a', 'a') as f: place = f.tell(), f.write('two\\n')",
    "with open('a', 'r+') as f: found = f.read(); back = f.seek(0); changed = f.write('O')",
    "with open('b', 'x') as f: new = f.write('b')",
    "with open('c', 'w') as f: many = [f.write('1')]\nwith open('c', 'a') as f: many += [f.write('2')]\n"
    "w = edit('c', '12', '3456')\nwith open('c', 'rb+') as f: many += [f.read(), f.write(b'!')]",
    "with open('old', 'a') as f: more = f.write('!')",
)
NAMES = "wrote, place, found, changed, new, many, more"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def outcome(session: Session, number: int, source: str) -> tuple[list[str], list[str]]:
    """The statuses of what ran, and what came out differently."""
    report = await session.edit(number, source)
    assert report.outcome == "completed"
    return [each.status for each in report.executions], [
        f"{each.statement} {each.aspect}" for each in report.divergences
    ]


async def test_reopened_files_and_repeated_writes_are_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / "old").write_text("old")
    store: Store = MemoryStore(SystemClock())
    entropy = CountingEntropy()
    async with session_in(
        project, store, state=tmp_path / "state", environments=in_process, entropy=entropy
    ) as session:
        for source in OPENING:
            assert (await session.cell(source)).status == "ok", source
        left, names = contents(project), (await session.cell(NAMES)).value
        assert left == {"a": b"O\ntwo\n", "b": b"b", "c": b"3456!", "old": b"old!"}
        # An edit, and an edit of what that has left, which has acted on nothing itself.
        for source in ("x = 0 + 1", "x = 3 - 2"):
            assert await outcome(session, 1, source) == (["ok"] * 8, [])
            assert contents(project) == left
        assert (await session.cell(NAMES)).value == names
        known = session.session_id
    for path in project.iterdir():
        path.unlink()
    async with session_in(tmp_path / "state", store, load=known, environments=in_process, entropy=entropy) as session:
        assert (await session.cell(NAMES)).value == names
        # Also where the disk has nothing of it any more.
        assert await outcome(session, 1, "x = 2 // 2") == (["ok"] * 10, [])
        assert contents(project) == {}


async def test_different_write_is_stopped_where_it_would_land(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    store: Store = MemoryStore(SystemClock())
    entropy = CountingEntropy()
    async with session_in(
        project, store, state=tmp_path / "state", environments=in_process, entropy=entropy
    ) as session:
        for source in (
            "x = 1",
            "f = open('a', 'w'); n = f.write(str(x)); said = ''\ntry: f.close()\nexcept OSError as e: said = str(e)",
            "with open('a', 'a') as f: m = f.write('2')",
            "try: open('b', 'x').close(); made = 'made'\nexcept FileExistsError: made = 'there'",
            "try: open('b', 'x').close(); again = 'made'\nexcept FileExistsError: again = 'there'",
        ):
            assert (await session.cell(source)).status == "ok", source
        statuses, differences = await outcome(session, 1, "x = 2")
        assert statuses == ["ok"] * 5
        assert "2 diff" in differences
        assert {each.split()[0] for each in differences} == {"1", "2"}
        assert contents(project) == {"a": b"12", "b": b""}
        said = "'no answer to this call is recorded, and an edit without --live changes nothing; write() was not done'"
        assert (await session.cell("said")).value == said
        assert (await session.cell("made, again, m, x")).value == "('made', 'there', 1, 2)"
        statuses, _ = await outcome(session, 5, "with open('c', 'w') as f: f.write('no')")
        assert statuses[0] == "error"
        assert sorted(contents(project)) == ["a", "b"]
        known = session.session_id
    async with session_in(tmp_path / "state", store, load=known, environments=in_process, entropy=entropy) as session:
        assert (await session.cell("said")).value == said
        assert sorted(contents(project)) == ["a", "b"]


async def test_unrecorded_act_is_refused_in_edit_and_rebuild(tmp_path: Path) -> None:
    store: Store = MemoryStore(SystemClock())
    entropy = CountingEntropy()
    made = tmp_path / "made"
    async with session_in(
        tmp_path, store, state=tmp_path / "state", environments=in_process, entropy=entropy
    ) as session:
        await session.cell("x = 1")
        await session.cell(f"import os\ntry: os.mkdir({str(made)!r})\nexcept OSError as e: said = str(e)")
        made.rmdir()
        await session.edit(1, "x = 2")
        said = (await session.cell("said")).value or ""
        assert said[1:].startswith(
            "an edit without --live has no outside effects; this statement was not allowed to call os.mkdir"
        )
        known = session.session_id
    async with session_in(tmp_path / "state", store, load=known, environments=in_process, entropy=entropy) as session:
        assert (await session.cell("said")).value == said
        (restored,) = events_of(session, EnvironmentRestored)
        assert restored.divergences == ()
    assert not made.exists()


async def test_unavailable_worker_ends_an_edit_with_every_call_answered(tmp_path: Path) -> None:
    environment = HollowEnvironment()
    async with session_in(tmp_path, environments=lambda: environment) as session:
        for source in STATEMENTS:
            await session.accept(source).end()

        async def fail(now: Moment) -> None:
            if now == "run":
                environment.alive = False
                raise EnvironmentUnavailableError("no memory for a worker")

        environment.meanwhile = fail
        report = await session.edit(2, "text = ''")
        assert (report.outcome, report.detail) == ("failed", "no memory for a worker")
        calls, results = (
            [event.tool_call_id for event in session.path if isinstance(event, kind)] for kind in (ToolCall, ToolResult)
        )
        assert results == calls
        assert not cycles_of(session.path).anomalies


@pytest.mark.parametrize("mode", ["recorded", "live"])
async def test_edit_and_rewind_keep_given_tags(tmp_path: Path, mode: EditMode) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("# tag: old\nx = 1", tags=("given",))
        await session.cell("y = x", tags=("later",))
        await session.edit(1, "# tag: new\nx = 2", mode=mode)
        assert [cell.statement.tag_names for cell in session.cells] == [("new", "given"), ("later",)]
        await session.rewind(1)
        assert [cell.statement.tag_names for cell in session.cells] == [("new", "given")]


async def test_live_edit_of_a_call_sets_the_new_tags(tmp_path: Path) -> None:
    model = AnsweringModel(runs("# tag: call\nx = 1"), says("done"))
    async with sessions_of(tmp_path, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        await session.accept("go?").end()
        await session.edit(1, "x = 2\n# tag: edited", mode="live")
        assert [cell.statement.tag_names for cell in session.cells] == [("edited",)]


async def test_recorded_edit_of_a_statement_that_never_ran_acts_on_nothing(tmp_path: Path) -> None:
    model = AnsweringModel(runs("x = 1", "write('b.txt', 'first')", typed=False))
    user = FixedPermissions([PermissionAnswer(outcome=each) for each in ("allowed", "rejected")])
    async with session_in(tmp_path, model=model, environments=in_process) as session:
        session.attach(user)
        await session.accept("go").end()
        asked = len(user.questions)
        report = await session.edit(2, "w = write('b.txt', 'second')")
        assert not (tmp_path / "b.txt").exists()
        assert [each.status for each in report.executions] == ["error"]
        assert len(user.questions) == asked
