"""Moving the head: the conversation, the namespace and what waits go on where it leads, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from engine import Session
from engine.context.view import View
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.core.ids import BranchId
from engine.log.branches import SHOWN_BRANCHES
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.conversation import Condensation, RunStop, ToolResult, UserMessage
from engine.log.events.going_back import BranchCreated, HeadMoved
from engine.log.events.session import EnvironmentRestored, PromptQueued
from engine.log.store.changes import Append, Change
from engine.log.store.group_commit import GroupCommit
from engine.log.store.sqlite import SqliteStore
from engine.log.store.writer import SqliteCommitter
from engine.session.commands.timeline import diff_lines
from engine.session.past.branch_diff import BranchDiff
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import answer_to, events_of, session_in, value_of

pytestmark = pytest.mark.anyio


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


async def test_many_branches_list_first_active_and_newest(tmp_path: Path) -> None:
    count = SHOWN_BRANCHES + 5
    async with session_in(tmp_path, environments=HollowEnvironment) as session:
        await session.cell("x = 1")
        for _ in range(SHOWN_BRANCHES):
            await session.rewind(1)
        with pytest.raises(InvalidRequestError, match=rf"The branches are main, b1, .*, b{SHOWN_BRANCHES}\.$"):
            await session.switch("b99")
        for _ in range(SHOWN_BRANCHES, count):
            await session.rewind(1)
        await session.switch("b2")
        names = ["main", "b2", *(f"b{number}" for number in range(6, count + 1))]
        *lines, rest = (await answer_to(session, "/branch")).splitlines()
        assert [line.split("`")[1] for line in lines] == names
        assert rest == "... 4 more branches in `rewindow branches`"
        with pytest.raises(InvalidRequestError, match=r"The branches are main, b6, .*, b25 and 5 more\.$"):
            await session.switch("b99")


async def test_unknown_statement_branch_or_option_changes_nothing(session: Session) -> None:
    await session.cell("x = 1")
    for text, answer in (
        ("/rewind 2", "There is no statement 2; the only statement is 1."),
        ("/rewind -1", "There is no statement -1; the only statement is 1."),
        ("/rewind " + "9" * 40, "There is no statement 9999999999999999999…; the only statement is 1."),
        ("/rewind \x1b[2J", "There is no statement \\x1b[2J; the only statement is 1."),
        ("/branch b1", "There is no branch b1. The branches are main."),
        ("/branch \x1b[2J", "There is no branch \\x1b[2J. The branches are main."),
        ("/branch main", "branch main is active already; the branches are main"),
        ("/rewind --keep-files", "There is no statement --keep-files; the only statement is 1."),
        ("/rewind 1 2", "`/rewind K` accepts only `--keep-files`, `--keep-conversation` and `--dry-run`, not `2`."),
        (
            "/rewind 1 --files",
            "`/rewind K` accepts only `--keep-files`, `--keep-conversation` and `--dry-run`, not `--files`.",
        ),
        ("/branch main --files", "`/branch NAME` accepts only `--keep-files`, not `--files`."),
    ):
        assert await answer_to(session, text) == answer
    with pytest.raises(InvalidRequestError, match="There is no statement 2"):
        await session.rewind(2)
    with pytest.raises(InvalidRequestError, match="There is no branch"):
        await session.switch("b1")
    assert not [event for event in session.events if isinstance(event, BranchCreated | HeadMoved)]
    assert not cycles_of(session.events).anomalies


async def test_path_cut_inside_a_run_begins_with_its_end(tmp_path: Path) -> None:
    model = AnsweringModel(runs("a = 1", "b = 2", "c = 3"))
    async with session_in(tmp_path, model=model) as session:
        await session.accept("go").end()
        await session.rewind(2)
        start = next(place for place, event in enumerate(session.path) if isinstance(event, HeadMoved))
        after = session.path[start:]
        assert kinds(after) == ["head_moved", "run_stop", "user_message", "agent_text", "run_stop"]
        assert isinstance(after[1], RunStop)
        assert after[1].reason == "interrupted"
        assert isinstance(session.path[start - 1], ToolResult)
        await session.accept("and now?").end()
        messages = model.prompts[-1].messages
        assert [event.text for event in messages if isinstance(event, UserMessage)] == ["go", "and now?"]
        assert sum(isinstance(event, ToolResult) for event in messages) == 2
        assert "this is branch b1, which continues after statement 2" in model.prompts[-1].tail
        assert messages == View.from_events(session.path).ready(open_run=True)[: len(messages)]
        assert not cycles_of(session.path).anomalies


async def test_move_and_its_reason_are_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[list[str]] = []
    commit, put = SqliteCommitter.commit, GroupCommit.put

    def kept(self: SqliteCommitter, changes: Sequence[Change], *, is_retry: bool) -> None:
        commit(self, changes, is_retry=is_retry)
        commits.append([change.values[3] for change in changes if isinstance(change, Append)])

    def at_once(self: GroupCommit, change: Change, *, waits: bool = False) -> None:
        put(self, change, waits=waits)
        if not waits:
            self.drain()

    monkeypatch.setattr(SqliteCommitter, "commit", kept)
    monkeypatch.setattr(GroupCommit, "put", at_once)
    store = SqliteStore(tmp_path / "sessions.db", SystemClock())
    async with session_in(tmp_path, store, model=AnsweringModel(runs("a = 1", "b = 2"))) as session:
        await session.accept("go").end()
        await session.edit(2, "b = 3")
        await session.rewind(1)
    store.close()
    together = [kinds[kinds.index("branch_created") :] for kinds in commits if "branch_created" in kinds]
    assert together[0][:5] == ["branch_created", "head_moved", "run_stop", "user_message", "edit_begun"]
    assert together[1][:4] == ["branch_created", "head_moved", "run_stop", "user_message"]


async def test_completed_run_keeps_its_stop_after_a_rewind(session: Session) -> None:
    await session.accept("x = 1").end()
    await session.accept("x = 2").end()
    await session.rewind(1)
    place = next(place for place, event in enumerate(session.path) if isinstance(event, HeadMoved))
    assert kinds(session.path[place:]) == ["head_moved", "user_message", "agent_text", "run_stop"]
    assert cycles_of(session.path).cycles[0].stop == session.path[place - 1]


async def test_rewind_undoes_a_later_condensation(tmp_path: Path) -> None:
    model = AnsweringModel(runs("a = 1", "print('word ' * 2_000)", "c = 3"))
    async with session_in(tmp_path, model=model) as session:
        await session.accept("go").end()
        whole = session.view.events
        await session.accept("/compact").end()
        assert any(isinstance(event, Condensation) for event in session.path)
        assert len(session.view) < len(whole)
        await session.rewind(1)
        assert session.view.events == whole[: len(session.view)]
        assert len(session.view) == 3


async def test_waiting_prompts_run_on_the_branch_that_becomes_active(session: Session) -> None:
    for source in ("x = 1", "x = 2"):
        await session.cell(source)
    tickets = [
        session.accept(text)
        for text in ("import time; time.sleep(0.05)", "/rewind 1", "y = x", "/branch main", "z = x")
    ]
    for ticket in tickets:
        assert (await ticket.end()).cause == "end_turn"
    assert await value_of(session, "x, z, 'y' in globals()") == "(2, 2, False)"
    await session.switch("b1")
    assert await value_of(session, "x, y, 'z' in globals()") == "(1, 1, False)"
    queued = [event.text for event in events_of(session, PromptQueued)]
    assert queued.count("z = x") == 3
    for branch in ("b1", "main"):
        cycles = cycles_of(session.path)
        assert not cycles.anomalies
        assert not cycles.queue
        assert not cycles.active
        if branch == "b1":
            await session.switch("main")


async def test_value_saved_after_the_cut_serves_the_rebuild(session: Session) -> None:
    await session.cell("import os; token = os.urandom(8).hex()")
    token = await value_of(session, "token")
    await session.rewind(1)
    assert await value_of(session, "token") == token
    restored = [event for event in session.path if isinstance(event, EnvironmentRestored)]
    assert restored[-1].executions == 1


async def test_rebuild_under_way_is_discarded_when_the_head_moves(tmp_path: Path) -> None:
    made: list[HollowEnvironment] = []
    rebuilding, goes_on = anyio.Event(), anyio.Event()

    async def meanwhile(moment: Moment) -> None:
        if moment == "restore" and len(made) == 2:
            rebuilding.set()
            await goes_on.wait()

    def make() -> HollowEnvironment:
        made.append(HollowEnvironment(meanwhile))
        return made[-1]

    async with session_in(tmp_path, environments=make) as session, anyio.create_task_group() as tasks:
        for source in ("x = 1", "x = 2", "x = 3"):
            await session.cell(source)
        await session.rest()
        tasks.start_soon(session.count, ["text"])
        await rebuilding.wait()
        tasks.start_soon(session.rewind, 1)
        await anyio.wait_all_tasks_blocked()
        goes_on.set()
        await session.idle()
        await session.cell("y = 4")
        assert [environment.alive for environment in made] == [False, True]
        assert made[-1].restored == ["x = 1"]


async def ran(session: Session, *sources: str) -> None:
    for source in sources:
        finished = await session.cell(source)
        assert finished.exception is None, finished.exception


async def test_statements_names_and_files_that_differ_are_listed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with session_in(tmp_path / "project", state=tmp_path / "state") as session:
        await ran(session, "same = 1; x = [1]; gone = 1\nw = write('same', '1'); w = write('a', '1'); w = None")
        await ran(session, "x.append(2); own = 'main'\nw = write('a', 'main'); w = write('only', '1'); w = None")
        assert await answer_to(session, "/diff main") == "main cannot be compared with itself; name another branch."
        await session.rewind(1)
        await ran(session, "x.append(3); del gone\nw = write('a', 'b1'); w = write('b', '1'); w = None")
        lines = (await answer_to(session, "/diff main")).splitlines()
        assert lines[0] == "`main` and `b1` have statement 1 in common."
        assert lines[2:5:2] == ["Only on `main`:", lines[4]]
        assert lines[4].startswith("- statement 2. `x.append(2); own = 'main' …` (ok, ")
        assert lines[8].startswith("- statement 2. `x.append(3); del gone …` (ok, ")
        assert lines[9:] == [
            "",
            "Names that differ:",
            "",
            "- `gone`: `1` on `main`, none on `b1`",
            "- `own`: `'main'` on `main`, none on `b1`",
            "- `x`: `[1, 2]` on `main`, `[1, 3]` on `b1`",
            "",
            "Files that differ:",
            "",
            "- `a`: different content",
            "- `b`: only on `b1`",
            "- `only`: only on `main`",
        ]
        swapped = (await answer_to(session, "/diff b1 main")).splitlines()
        assert swapped[-3:] == [lines[-3], "- `b`: only on `b1`", "- `only`: only on `main`"]
        assert swapped[-7] == "- `x`: `[1, 3]` on `b1`, `[1, 2]` on `main`"
        for text, answer in (
            ("/diff x", "There is no branch x. The branches are main, b1."),
            ("/diff a b c", "`/diff` takes two branches, or one to compare with the active one."),
            ("/diff", "`/diff` needs the names of one or two branches: `/diff A [B]`."),
        ):
            assert await answer_to(session, text) == answer


async def test_branches_that_are_alike_differ_in_nothing() -> None:
    alike = BranchDiff(BranchId("main"), BranchId("b1"), 2, (), (), (), ())
    assert diff_lines(alike, "/") == [
        "`main` and `b1` have statements 1 to 2 in common.",
        "The branches do not differ.",
    ]
