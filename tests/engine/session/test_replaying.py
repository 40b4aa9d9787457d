"""Statements run again, with their progress, or are left out: differences are recorded, names stay as they were."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from engine import Environment, Model, Progress, Session, Store, Subscription, with_progress
from engine.context.tail.section_parts import NEW
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.core.execution import ReplayMode
from engine.log.cycles import cycles_of
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import RunStop
from engine.log.events.execution import ExecutionStarted
from engine.log.events.going_back import Diverged, ReplayBegun, ReplayEnded
from engine.log.events.session import EnvironmentRestored
from engine.log.rebuild_plan import History
from engine.log.store.memory import MemoryStore
from engine.log.timeline import Timeline
from engine.session.repair import repair
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, says
from tests.support.sessions import answer_to, events_of, in_process, session_in, value_of

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where statements run, also those of this process."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("then")
    return tmp_path


@asynccontextmanager
async def opened(
    project: Path,
    *sources: str,
    environments: Callable[[], Environment] | None = in_process,
    store: Store | None = None,
    model: Model | None = None,
    settings: dict[str, object] | None = None,
    **environ: str,
) -> AsyncIterator[Session]:
    """A session in which these statements have run."""
    async with session_in(
        project, store, state=project / "state", environments=environments, model=model, settings=settings, **environ
    ) as session:
        await ran(session, *sources)
        yield session


async def ran(session: Session, *sources: str) -> None:
    for source in sources:
        await session.cell(source)


def diverged(session: Session) -> list[tuple[int, str, str, str]]:
    return [
        (event.statement, event.aspect, event.before, event.after)
        for event in session.events
        if isinstance(event, Diverged)
    ]


def session_anomalies(session: Session) -> object:
    return cycles_of(session.events).anomalies


def kinds(session: Session, position: int) -> list[str]:
    return [event.kind for event in session.events[position:]]


# --- recorded ---------------------------------------------------------------------------------------------------------


async def test_differences_are_recorded_and_the_namespace_stays(project: Path) -> None:
    async with opened(
        project, "from pathlib import Path", "text = Path('a.txt').read_text()", "text + '!'", "1 + 1"
    ) as session:
        (project / "a.txt").write_text("now")
        report = await session.replay(2)
        assert (report.outcome, report.first, report.last, len(report.executions)) == ("completed", 2, 4, 3)
        # What came after it found what it had found before.
        assert diverged(session) == [(2, "diff", "text = 'then'", "text = 'now'")]
        assert [len(cell.executions) for cell in session.cells] == [1, 2, 2, 2]
        first, again = session.cells[1].executions
        assert (len(first.divergences), len(again.divergences)) == (0, 1)
        assert again.started.against == first.started.execution_id
        assert session.cells[1].finished is first.finished
        assert await value_of(session, "text") == "'then'"


async def test_replay_is_a_command_that_no_model_reads(project: Path) -> None:
    async with opened(project, "x = 1", "x + 1") as session:
        position, shown = session.position, len(session.view.events)
        await session.replay(2, 2)
        assert kinds(session, position) == [
            "user_message", "replay_begun", "execution_started", "execution_finished", "environment_restored",
            "replay_ended", "agent_text", "run_stop",
        ]  # fmt: skip
        assert len(session.view.events) == shown
        assert [event.mode for event in events_of(session, ExecutionStarted)] == [None, None, "recorded"]


PLANTED = {
    "text = Path('a.txt').read_text()": ("diff", "text = 'then'", "text = 'now'"),
    "Path('a.txt').read_text()": ("value", "'then'", "'now'"),
    "print('same'); print(Path('a.txt').read_text())": ("stdout", "'then'", "'now' in line 2"),
    "import sys; print(Path('a.txt').read_text(), file=sys.stderr)": ("stderr", "'then'", "'now'"),
    "{'now': 1}[Path('a.txt').read_text()]; None": ("status", "error", "ok"),
    "raise ValueError(Path('a.txt').read_text())": (
        "exception", "error (ValueError: then)", "error (ValueError: now)",
    ),
    "import io; io.open('c.txt', 'a').close()": (
        "stopped effects", "changed {project}/c.txt", "was not allowed to call open c.txt",
    ),
    "read('a.txt' if 'then' in Path('a.txt').read_text() else 'b.txt')": (
        "stopped effects", "Read a.txt", "asked for 'Read b.txt' instead of 'Read a.txt'",
    ),
    "v = view('a.txt') if 'then' in Path('a.txt').read_text() else view('b.txt')": (
        "files read", "", "looked at b.txt, but nothing of it is recorded",
    ),
    "if 'then' in Path('a.txt').read_text(): gone = 1": ("diff", "gone = 1", ""),
    "if 'now' in Path('a.txt').read_text(): come = 1": ("diff", "", "come = 1"),
    "items = [0] * 1000; items[900] = Path('a.txt').read_text()": (
        "diff", "items = [0, 0, 0, 0, 0, 0, …]", "items = [0, 0, 0, 0, 0, 0, …] (of another content)",
    ),
}  # fmt: skip
"""Statements, and in which aspect each comes out differently once a.txt says something else."""


async def test_each_difference_is_reported_once_with_both_sides(project: Path) -> None:
    (project / "b.txt").write_text("other")
    async with opened(project, "from pathlib import Path", *PLANTED) as session:
        (project / "a.txt").write_text("now")
        await session.replay(1)
        found: dict[int, list[tuple[str, str, str]]] = {}
        for number, *rest in diverged(session):
            found.setdefault(number, []).append((rest[0], rest[1], rest[2]))
        for number, (source, (aspect, before, after)) in enumerate(PLANTED.items(), 2):
            assert (aspect, before.format(project=project), after) in found.get(number, []), (source, found.get(number))
            assert len({each[0] for each in found[number]}) == len(found[number]), source


async def test_statements_behind_the_last_one_are_in_the_namespace_too(project: Path) -> None:
    async with opened(project, "x = 1", "y = x + 1", "z = y + 1") as session:
        report = await session.replay(2, 2)
        assert [each.statement_id for each in report.executions] == [session.cells[1].statement.statement_id]
        assert await value_of(session, "x, y, z") == "(1, 2, 3)"


async def test_what_cannot_run_again_is_said_and_the_rest_runs(project: Path) -> None:
    async with opened(project, "x = 1", "x = 2", "x + 1") as session:
        await answer_to(session, "/omit 2")
        report = await session.replay(1)
        assert len(report.executions) == 2
        assert report.not_run == ("statement 2 is left out, as the user asked",)
        with pytest.raises(
            InvalidRequestError, match="Nothing can run again: statement 2 is left out, as the user asked"
        ):
            await session.replay(2, 2)


async def test_the_command_says_how_it_went(project: Path) -> None:
    async with opened(project, "from pathlib import Path", "Path('a.txt').read_text()") as session:
        assert await answer_to(session, "/replay 1") == (
            "2 statements ran again, with their recorded answers: none differs. The namespace is unchanged."
        )
        (project / "a.txt").write_text("now")
        assert await answer_to(session, "/replay 2") == (
            "1 statement ran again, with their recorded answers: 1 differs."
            " The namespace is unchanged.\n- statement 2: `value: 'now' instead of 'then'`"
        )


async def test_the_model_is_told_once_of_each_difference_and_of_no_report(project: Path) -> None:
    async with opened(project, "from pathlib import Path", "Path('a.txt').read_text()") as session:
        tail = ""
        for text in ("between", "now"):
            (project / "a.txt").write_text(text)
            await session.replay(2)
            assert (await session.projection()).prompt.tail == tail
            await session.replay(2, mode="live")
            told = f"statement 2 ran again with a different result: value: '{text}' instead of 'then'"
            tail = f"{NEW}namespace: {told}\n"
            assert (await session.projection()).prompt.tail == tail


# --- dry --------------------------------------------------------------------------------------------------------------


async def test_dry_replay_ends_at_the_first_effect(project: Path) -> None:
    async with opened(project, "x = 1", "write('b.txt', 'b')", "y = 2") as session:
        (project / "b.txt").write_text("mine")
        report = await session.replay(1, mode="dry")
        assert (report.outcome, report.detail) == ("completed", "statement 2 is the first with an effect")
        assert [each.status for each in report.executions] == ["ok", "error"]
        assert [(each.aspect, each.before) for each in report.divergences] == [("stopped effects", "Write b.txt")]
        assert (project / "b.txt").read_text() == "mine"
        assert await value_of(session, "x, y") == "(1, 2)"


async def test_a_dry_replay_without_effects_runs_to_its_last_statement(project: Path) -> None:
    async with opened(project, "x = 1", "y = 2", "z = 3") as session:
        report = await session.replay(1, 2, mode="dry")
        assert (report.outcome, len(report.executions)) == ("completed", 2)
        assert await value_of(session, "x, y, z") == "(1, 2, 3)"


# --- live -------------------------------------------------------------------------------------------------------------


async def test_live_replay_acts_again_and_sets_the_namespace(project: Path) -> None:
    sources = ("x = 1", "text = read('a.txt')", "write('b.txt', text); y = len(text)", "z = y + x")
    async with opened(project, *sources) as session:
        (project / "a.txt").write_text("later")
        (project / "b.txt").unlink()
        report = await session.replay(2, mode="live")
        assert (report.outcome, report.is_kept, len(report.executions)) == ("completed", True, 3)
        assert (project / "b.txt").read_text() == "later"
        aspects = [(number, aspect) for number, aspect, _, _ in diverged(session)]
        assert aspects == [(2, "diff"), (2, "files read"), (3, "diff"), (3, "artifacts"), (4, "diff")]
        assert [cell.current == cell.executions[-1] for cell in session.cells] == [True] * 4
        assert await value_of(session, "text, y, z") == "('later', 5, 6)"
        await session.rest()
        assert await value_of(session, "text, y, z") == "('later', 5, 6)"
        assert not session_anomalies(session)


async def test_rewriting_the_same_content_is_no_difference(project: Path) -> None:
    sources = ("write('b.txt', 'b'); None", "with open('c.txt', 'w') as f: n = f.write('c')\ndel f")
    async with opened(project, *sources) as session:
        assert (await session.replay(1, mode="live")).divergences == ()
        await session.cell("write('b.txt', 'other'); None")
        report = await session.replay(1, mode="live")
        assert [(each.statement, each.aspect) for each in report.divergences] == []


async def test_rebuild_after_a_live_replay_keeps_its_view_content(project: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with opened(project, "v = view('a.txt', freq='Sync')", model=model) as session:
        for text in ("before it", "in it"):
            (project / "a.txt").write_text(text)
            await (session.accept("hello").end() if text == "before it" else session.replay(1, mode="live"))
        for _ in range(2):
            assert await value_of(session, "v.rendered.text") == repr("1\tin it\n")
            await session.rest()


async def test_a_cancelled_live_replay_leaves_the_namespace_as_it_was(project: Path) -> None:
    async with opened(project, "x = 1", "x += 1", WAITS, environments=None) as session:
        (project / "wait").touch()
        subscription = session.subscribe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.replay, 1, None, "live")
            await begun(subscription, session, 3)
            tasks.cancel_scope.cancel()
        (project / "wait").unlink()
        assert endings(session) == [("cancelled", "")]
        assert [cell.current == cell.executions[0] for cell in session.cells] == [True] * 3
        assert await value_of(session, "x") == "2"


async def test_stopped_statement_is_skipped_in_every_mode(project: Path) -> None:
    async with opened(project, "x = 1", environments=None) as session:
        await session.cell("x = 2\nwhile True: pass", seconds=0.2)
        await session.cell("y = x")
        said = "statement 2 was stopped (timeout) and is not run again; "
        kept = await session.replay(1)
        assert (len(kept.executions), kept.not_run) == (2, (said + "its values are restored from copies",))
        assert await value_of(session, "x, y") == "(2, 2)"
        report = await session.replay(1, mode="live")
        assert (len(report.executions), report.not_run) == (3, (said + "its values are not restored",))
        assert await value_of(session, "x, y") == "(1, 1)"
        await session.rest()
        assert await value_of(session, "x, y") == "(1, 1)"
        with pytest.raises(InvalidRequestError, match="Nothing can run again: statement 2 was stopped"):
            await session.replay(2, 2, "live")


async def test_a_secret_keeps_a_statement_from_a_live_replay(project: Path) -> None:
    async with opened(
        project, "x = 1", "key = 'sk-very-secret-thing'", OPENAI_API_KEY="sk-very-secret-thing"
    ) as session:
        with pytest.raises(InvalidRequestError, match="Statement 2 had a secret in its source"):
            await session.replay(1, mode="live")
        report = await session.replay(1)
        assert report.not_run == ("statement 2 had a secret in its source, which is not stored",)


# --- what cannot be asked ---------------------------------------------------------------------------------------------

WRONG = {
    "": "`/replay` needs the number of a statement, and optionally of a later one: `/replay K [J] [--live | --dry]`.",
    "9": "There is no statement 9; the statements are numbered from 1 to 2.",
    "0": "There is no statement 0; the statements are numbered from 1 to 2.",
    "1 9": "There is no statement 9; the statements are numbered from 1 to 2.",
    "2 1": "Statement 2 comes after statement 1; name the earlier one first.",
    "x": "There is no statement x; the statements are numbered from 1 to 2.",
    "-1": "There is no statement -1; the statements are numbered from 1 to 2.",
    "1 --all": "'--all' is not an option here; the options are `--recorded`, `--live`, `--dry`.",
    "1 2 3": "Give the number of a statement, optionally the number of a later one, and at most one mode.",
    "--dry": "Give the number of a statement, optionally the number of a later one, and at most one mode.",
    "99999999999999999999": "There is no statement 99999999999999999999; the statements are numbered from 1 to 2.",
}


async def test_invalid_replay_is_answered_and_changes_nothing(project: Path) -> None:
    async with opened(project, "x = 1", "x + 1") as session:
        for argument, said in WRONG.items():
            position = session.position
            assert await answer_to(session, f"/replay {argument}") == said
            assert kinds(session, position) == ["user_message", "agent_text", "run_stop"]
        for first, last in ((0, None), (3, None), (1, 3), (2, 1)):
            with pytest.raises(InvalidRequestError):
                await session.replay(first, last)
        assert not events_of(session, ReplayBegun)


async def test_without_statements_that_is_said(project: Path) -> None:
    async with opened(project) as session:
        assert await answer_to(session, "/replay 1") == "No statement has run yet."


async def test_a_replay_waits_for_what_runs(project: Path) -> None:
    async with opened(project, "x = 1") as session:
        busy = session.accept("/run while True: pass")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.replay, 1)
            await anyio.lowlevel.checkpoint()
            session.cancel(busy)
        assert endings(session) == [("completed", "")]


# --- ends that are none -----------------------------------------------------------------------------------------------

WAITS = "import pathlib\nwhile pathlib.Path('wait').exists(): pass"
ENDS = "import os, pathlib\nif pathlib.Path('end').exists(): os._exit(3)"


def endings(session: Session) -> list[tuple[str, str]]:
    return [(event.outcome, event.detail) for event in events_of(session, ReplayEnded)]


async def begun(subscription: Subscription, session: Session, number: int) -> None:
    """Waits until the statement of that number runs again."""
    statement = session.cells[number - 1].statement.statement_id
    async for batch in subscription.batches(0.0):
        if any(isinstance(each, ExecutionStarted) and each.statement_id == statement for each in batch):
            return


async def test_a_cancelled_replay_leaves_everything_as_it_was(project: Path) -> None:
    async with opened(project, "x = 1", WAITS, "x += 1", environments=None) as session:
        (project / "wait").touch()
        subscription = session.subscribe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.replay, 1)
            await begun(subscription, session, 2)
            tasks.cancel_scope.cancel()
        (project / "wait").unlink()
        assert endings(session) == [("cancelled", "")]
        assert [event.cause for event in events_of(session, RunStop)][-1] == "cancelled"
        first, again = session.cells[1].executions
        assert again.finished is not None
        assert (again.finished.status, again.finished.mode) == ("cancelled", "recorded")
        assert session.cells[1].current == first
        assert await value_of(session, "x") == "2"


async def test_a_statement_that_ends_its_worker_ends_the_replay(project: Path) -> None:
    async with opened(project, "x = 1", ENDS, "x += 1", environments=None) as session:
        (project / "end").touch()
        report = await session.replay(1)
        (project / "end").unlink()
        assert (report.outcome, report.detail) == ("failed", "statement 2 ended the worker")
        assert [each.status for each in report.executions] == ["ok", "error"]
        assert endings(session) == [("failed", "statement 2 ended the worker")]
        assert await value_of(session, "x") == "2"


@pytest.mark.slow
async def test_a_statement_that_reaches_its_time_limit_ends_the_replay(project: Path) -> None:
    settings: dict[str, object] = {"statement_seconds": 1.0}
    async with opened(project, "x = 1", WAITS, "x += 1", environments=None, settings=settings) as session:
        (project / "wait").touch()
        report = await session.replay(1)
        (project / "wait").unlink()
        assert (report.outcome, report.detail) == ("failed", "statement 2 reached its time limit")
        assert [each.status for each in report.executions] == ["ok", "timeout"]
        assert await value_of(session, "x") == "2"


async def test_an_exception_ends_no_replay(project: Path) -> None:
    async with opened(project, "1 / 0", "x = 2", "nobody") as session:
        report = await session.replay(1)
        assert [each.status for each in report.executions] == ["error", "ok", "error"]
        assert (report.outcome, report.divergences) == ("completed", ())


# --- a kill -----------------------------------------------------------------------------------------------------------


def meaning(events: Sequence[Event]) -> tuple[object, object, Sequence[Event]]:
    """What a log of which the process died means once it is repaired: its plan, its executions; and what was added."""
    log = EventLog(FixedClock(), lambda event: None)
    timeline = Timeline(log.at)
    log.follow_path(timeline, Timeline.FOLLOWS)
    log.load(events)
    added = repair(log, timeline)
    assert not cycles_of(log.path).anomalies
    current = [cell.current and cell.current.started.execution_id for cell in timeline.cells]
    return History.of(log.events, log.branches.holds).plan(1.0), current, added


@pytest.mark.parametrize("mode", ["recorded", "dry", "live"])
async def test_log_survives_a_death_at_any_moment_of_a_replay(project: Path, mode: ReplayMode) -> None:
    sources = ("x = 1", "text = read('a.txt')", "v = view('a.txt').Run()", "y = len(text) + x")
    async with opened(project, *sources) as session:
        await session.rest()  # with which all that is kept of values is on the log
        before = session.position
        (project / "a.txt").write_text("now")
        await session.replay(2, 3, mode)
        log = session.events
    ended = next(event.seq for event in log if isinstance(event, ReplayEnded))
    plan, current, _ = meaning(log[:before])
    for end in range(before, ended):
        assert meaning(log[:end])[:2] == (plan, current), log[end - 1]
    *_, added = meaning(log[:ended])
    assert [event.outcome for event in added if isinstance(event, ReplayEnded)] == ["interrupted"]
    assert (meaning(log)[:2] == (plan, current)) == (mode != "live")


def restored(session: Session) -> EnvironmentRestored:
    return events_of(session, EnvironmentRestored)[-1]


async def test_a_statement_is_left_out_and_taken_in_again(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with session_in(tmp_path, store) as session:
        for source in ("x = 1", "x = 100", "y = x"):
            await session.cell(source)
        assert "No statement is left out" in await answer_to(session, "/omit")
        assert "Statement 2 is left out of the namespace" in await answer_to(session, "/omit 2")
        assert await value_of(session, "x, y") == "(1, 1)"
        assert "<statement 2> is left out, as the user asked" in restored(session).divergences
        assert re.search(r"x = 100` \(ok, \d+ ms, left out\)", await answer_to(session, "/omit"))
    async with session_in(tmp_path, store, load=session.session_id) as session:
        assert await value_of(session, "x") == "1"
        assert "Statement 2 is in the namespace again" in await answer_to(session, "/omit 2")
        assert await value_of(session, "x, y") == "(100, 100)"


async def test_failure_after_an_omission_restores_no_names(session: Session) -> None:
    for source in ("import os", "a = [1]", "a.append(2); os.system('true')", "b = a", "os.system('true'); c = [3]"):
        await session.cell(source)
    await answer_to(session, "/omit 2")
    assert await value_of(session, "[name for name in 'abc' if name in globals()], c") == "(['c'], [3])"
    await answer_to(session, "/omit 2")
    assert await value_of(session, "a, b is a, c") == "([1, 2], True, [3])"


async def test_later_deletion_applies_when_a_statement_is_included_again(session: Session) -> None:
    await session.cell("x = 1")
    await session.accept("/omit 1").end()
    assert (await session.cell("del x")).status == "error"
    await session.accept("/omit 1").end()
    assert await value_of(session, "'x' in globals()") == "False"


async def test_statements_since_an_omission_keep_their_values(session: Session) -> None:
    await session.cell("x = 1")
    await answer_to(session, "/omit 1")
    drawn = await value_of(session, "import os; y = os.urandom(8).hex(); y")
    await session.rest()
    assert await value_of(session, "y") == drawn
    await answer_to(session, "/omit 1")
    # It could come out differently now that the other one is back, and does.
    assert await value_of(session, "y") != drawn


@pytest.mark.parametrize("number", ["0", "4", "-1", "x", "9" * 5000, "\u0662"])
async def test_there_is_no_such_statement(session: Session, number: str) -> None:
    await session.cell("x = 1")
    answer = await answer_to(session, f"/omit {number}")
    assert answer.startswith("There is no statement")
    assert len(answer) < 100
    assert await value_of(session, "x") == "1"


FILES = 3


class Told:
    """What was reported of each act, one after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.progress: list[Progress] = []

    async def note(self, progress: Progress) -> None:
        self.progress.append(progress)

    def taken(self) -> list[tuple[int, int, str]]:
        """What came since, of which `done` has only grown."""
        told, self.progress = self.progress, []
        assert [each.done for each in told] == sorted({each.done for each in told})
        return [(each.done, each.total, each.text) for each in told]


async def test_progress_of_each_statement_and_file_is_reported_in_order(tmp_path: Path) -> None:
    async with session_in(tmp_path, MemoryStore(SystemClock())) as session:
        for number in range(1, FILES + 1):
            await session.accept(f"x = {number}; w = write('{number}.txt', '')").end()
        told = Told(session)
        await with_progress(session, lambda: session.replay(2), told.note)
        *_, last = told.taken()
        assert last == (2, 2, "2 statements ran again")
        await with_progress(session, lambda: session.replay(1, mode="live"), told.note)
        assert [text for *_, text in told.taken()][-1] == "3 statements ran again"
        await with_progress(session, lambda: session.edit(2, "x = 20"), told.note)
        taken = told.taken()
        assert taken[-1] == (2, 2, "2 statements ran again")
        assert {total for _, total, _ in taken} == {2}
        await with_progress(session, lambda: session.switch("main"), told.note)
        assert told.taken() == []  # an edit without effects has left the files alone
        await with_progress(session, lambda: session.rewind(0), told.note)
        assert told.taken()[-1] == (3, 3, "3 of 3 files put back")
        with pytest.raises(InvalidRequestError, match="No statement has run yet"):
            await with_progress(session, lambda: session.replay(1), told.note)
        assert told.taken() == []


async def test_who_was_told_costs_nothing_afterwards(tmp_path: Path) -> None:
    async with session_in(tmp_path, MemoryStore(SystemClock())) as session:
        await session.accept("x = 1").end()
        reader = session.subscribe()
        session.unsubscribe(reader)
        await session.accept("x = 2").end()
        assert reader.published == 0
        assert [batch async for batch in reader.batches(pace=0)] == []


async def test_remaining_progress_is_reported_before_the_end(tmp_path: Path) -> None:
    async with session_in(tmp_path, MemoryStore(SystemClock())) as session:
        await session.accept("x = 1").end()
        is_over, told = anyio.Event(), list[Progress]()

        async def act() -> None:
            await session.replay(1)
            is_over.set()

        async def note(progress: Progress) -> None:
            await is_over.wait()
            told.append(progress)

        await with_progress(session, act, note)
        assert (told[-1].done, told[-1].total) == (1, 1)
