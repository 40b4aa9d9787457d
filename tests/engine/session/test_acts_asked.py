"""An act that is asked about or cancelled leaves one answer and one result, and what was done is on the log."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from engine.core.execution import LeftOut
from engine.core.ids import ExecutionId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import EffectAnswered, EffectRequested, FileTouched, FileWritten
from engine.log.events.session import ConfigChanged, PermissionAnswered, PermissionAsked
from engine.log.file_history import artifacts_of
from engine.log.permissions import PermissionAnswer, PermissionQuestion
from engine.log.statements import EffectAnswer, EffectRequest
from engine.session import tool_calls as module
from engine.session.directories import Scratch
from engine.session.editor_files import EditorBuffers
from engine.session.fetching import Fetcher
from engine.session.forms import FormQuestions
from engine.session.policy import Questions
from engine.session.tool_calls import ToolCalls, ToolContext
from engine.session.tools import SeenFiles, Workspace
from engine.session.working_tree.changes import TreeComparison
from tests.support.in_process import InProcessEnvironment
from tests.support.permissions import FixedPermissions
from tests.support.session_parts import session_parts

pytestmark = pytest.mark.anyio
SECONDS = 10.0
E = TypeVar("E", bound=Event)
ALLOWED = PermissionAnswer(outcome="allowed")


class Office:
    """A desk in a directory whose user is asked about acts, and the acts of one statement there."""

    def __init__(self, root: Path, approved: bool = False) -> None:
        parts, self.workspace = session_parts(root), Workspace(str(root))
        self.log, self.store = parts.log, parts.store
        self.log.append(ConfigChanged(option="ask_about", value="acts"))
        self.questions = Questions(self.log, parts.policy, parts.redactor, self.workspace.roots)
        self.forms = FormQuestions(parts.redactor)
        self.dismissed: list[bool] = []
        desk = ToolContext(
            parts=parts,
            workspace=self.workspace,
            questions=self.questions,
            forms=self.forms,
            fetcher=Fetcher(),
            downloads=Scratch(root, parts.session_id).keep,
            seen=SeenFiles(),
            comparison=TreeComparison(parts, self.workspace),
            buffers=EditorBuffers(self.workspace, parts.clock),
            dismissed=lambda: self.dismissed.append(True),
        )
        self._acts = ToolCalls(desk, ExecutionId("ex"), ToolCallId("p"), approved=approved)
        self._ordinal = -1

    async def perform(self, operation: str, **arguments: object) -> EffectAnswer:
        self._ordinal += 1
        request = EffectRequest(ordinal=self._ordinal, operation=operation, arguments=arguments)
        with anyio.fail_after(SECONDS):
            return await self._acts.perform(request, InProcessEnvironment(len))

    @property
    def artifacts(self) -> list[str]:
        return [Path(each.path).name for each in artifacts_of(self.log.events, ExecutionId("ex"))]

    def logged(self, kind: type[E]) -> list[E]:
        return [event for event in self.log.events if isinstance(event, kind)]


class Waiting:
    """A user who answers when the test says so."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.decided = anyio.Event()

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.set()
        await self.decided.wait()
        return ALLOWED


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if root / "state" not in (path, *path.parents))


async def torn(act: Callable[[], Awaitable[Any]], ready: Callable[[], Awaitable[Any]]) -> None:
    """Begins the act, and cancels it when it is where the test wants it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await ready()
        tasks.cancel_scope.cancel()


async def test_act_is_announced_asked_done_and_recorded_in_order(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.questions.permissions = FixedPermissions([ALLOWED])
    answer = await office.perform("write", path="a.txt", text="x")
    assert answer.error is None
    asked = [ToolCall, EffectRequested, PermissionAsked, PermissionAnswered]
    kinds = [*asked, FileTouched, FileWritten, EffectAnswered, ToolResult]
    assert [type(event) for event in office.log.events[1:]] == kinds
    assert office.artifacts == ["a.txt"]


async def test_allowed_act_is_asked_again_and_rejected_one_is_not(tmp_path: Path) -> None:
    office = Office(tmp_path)
    user = office.questions.permissions = FixedPermissions(
        [ALLOWED, PermissionAnswer(outcome="rejected"), PermissionAnswer(outcome="rejected")]
    )
    said = [(await office.perform("write", path="a.txt", text=text)).error for text in "xyyz"]
    assert [error and error.type for error in said] == [None, *["PermissionError"] * 3]
    assert len(user.questions) == 3
    assert (tmp_path / "a.txt").read_text() == "x"


@pytest.mark.parametrize("approved", [True, False])
async def test_what_was_approved_with_its_statement_is_not_asked_about(tmp_path: Path, approved: bool) -> None:
    office = Office(tmp_path, approved)
    answer = await office.perform("write", path="a.txt", text="x")
    assert (answer.error is None) is approved
    assert bool(office.logged(PermissionAsked)) is not approved
    assert (tmp_path / "a.txt").exists() is approved


async def test_reading_is_free(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    office = Office(tmp_path)
    assert (await office.perform("read", path="a.txt")).value == "x"
    assert (await office.perform("ls", path=".")).error is None
    assert (await office.perform("write", path="a.txt", text="x")).error is None  # which changes nothing
    assert office.logged(PermissionAsked) == []


async def test_a_question_that_is_dismissed_gives_up_the_turn(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.questions.permissions = FixedPermissions([PermissionAnswer(outcome="cancelled")])
    answer = await office.perform("write", path="a.txt", text="x")
    assert answer.error is not None
    assert office.dismissed == [True]
    assert not (tmp_path / "a.txt").exists()


async def test_act_cancelled_during_its_question_has_one_result(tmp_path: Path) -> None:
    office, user = Office(tmp_path), Waiting()
    office.questions.permissions = user
    await torn(lambda: office.perform("write", path="a.txt", text="x"), user.asked.wait)
    (answered,), (result,) = office.logged(EffectAnswered), office.logged(ToolResult)
    assert answered.error is not None
    assert answered.error.type == "InterruptedError"
    assert result.status == "cancelled"
    assert [event.outcome for event in office.logged(PermissionAnswered)] == ["cancelled"]
    assert not (tmp_path / "a.txt").exists()


async def test_landed_file_is_recorded_even_if_the_act_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released, land = threading.Event(), threading.Event(), module.land

    def slowly(*arguments: Any) -> None:
        begun.set()
        assert released.wait(SECONDS)
        land(*arguments)

    monkeypatch.setattr(module, "land", slowly)
    office = Office(tmp_path)
    office.questions.permissions = FixedPermissions([ALLOWED])

    async def landing() -> None:
        await anyio.to_thread.run_sync(begun.wait, SECONDS)
        threading.Timer(0.02, released.set).start()  # when the cancel below has come

    await torn(lambda: office.perform("write", path="a.txt", text="x"), landing)
    assert (tmp_path / "a.txt").read_text() == "x"
    (written,), (result,) = office.logged(FileWritten), office.logged(ToolResult)
    assert Path(written.path).name == "a.txt"
    assert len(office.logged(EffectAnswered)) == 1
    assert result.status == "ok"
    assert office.artifacts == ["a.txt"]


async def test_log_of_a_large_change_has_its_beginning_and_counts(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(20_000)]
    (tmp_path / "a.txt").write_text("".join(lines))
    office = Office(tmp_path, approved=True)
    await office.perform("write", path="a.txt", text="".join(line.upper() for line in lines))
    (written,) = office.logged(FileWritten)
    (change,) = written.changes
    assert change.old == "".join(lines[:5_111])
    assert change.new == "".join(lines[:5_111]).upper()
    assert change.left_out == LeftOut(14_889, 14_889)
    assert written.note == (
        "this diff is cut to 100,000 of 417,780 characters, and omits 14,889 added and 14,889 removed lines"
    )
    assert written.before_digest != written.after_digest != ""


async def test_rest_of_the_statement_is_offered_after_the_first_file(tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir()
    office = Office(tmp_path)
    never = PermissionAnswer(outcome="rejected", remember=True)
    user = office.questions.permissions = FixedPermissions(
        [never, ALLOWED, PermissionAnswer(outcome="allowed", rest=True), ALLOWED]
    )
    said = [
        await office.perform(operation, path=path, **more)
        for operation, path, more in (
            ("write", "keep/a", {"text": "1"}),
            ("write", "b", {"text": "1"}),
            ("write", "c", {"text": "1"}),
            ("remove", "b", {}),
            ("write", "keep/d", {"text": "1"}),
        )
    ]
    assert [answer.error is None for answer in said] == [False, True, True, True, False]
    assert (await office.perform("bash", command="true")).error is not None  # which needs an environment
    assert [question.rest for question in user.questions] == [False, True, True, False]
    assert [event.rest for event in office.logged(PermissionAnswered)] == [False, False, True, False]
    assert names(tmp_path) == ["c", "keep"]


async def test_answer_about_the_rest_counts_only_where_offered(tmp_path: Path) -> None:
    office = Office(tmp_path)
    user = office.questions.permissions = FixedPermissions(
        [PermissionAnswer(outcome="allowed", rest=True), PermissionAnswer(outcome="rejected", rest=True), ALLOWED]
    )
    for path in "abc":
        await office.perform("write", path=path, text="1")
    assert len(user.questions) == 3
    assert names(tmp_path) == ["a", "c"]


async def test_directory_of_the_user_asks_under_the_name_of_a_made_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    office = Office(tmp_path)
    user = office.questions.permissions = FixedPermissions([ALLOWED] * 8)
    asked: list[int] = []
    for operation, arguments in (
        ("mkdir", {"path": "d", "mode": 0o777}),
        ("mkdir", {"path": "d/in", "mode": 0o777}),
        ("rename", {"source": "d", "path": "e"}),
        ("rename", {"source": "src", "path": "d"}),
        ("mkdir", {"path": "d/y", "mode": 0o777}),
        ("chmod", {"path": "d", "mode": 0o700}),
        ("mkdir", {"path": "e/in/y", "mode": 0o777}),
        ("chmod", {"path": "e", "mode": 0o700}),
    ):
        assert (await office.perform(operation, **arguments)).error is None
        asked.append(len(user.questions))
    assert asked == [1, 1, 2, 3, 4, 5, 5, 5]
