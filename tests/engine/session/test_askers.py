"""Several who answer the questions of one session: the first answer counts, and the others' waits end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from engine import PermissionAnswer, PermissionQuestion
from engine.core.ids import Seq, ToolCallId
from engine.log.forms import Form, FormAnswer
from engine.log.permissions import StatementSubject
from engine.session.askers import Askers
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import in_process, session_in
from tests.support.workers import PATIENCE

QUESTION = PermissionQuestion(tool_call_id=ToolCallId("c"), subject=StatementSubject("1", ""), seq=Seq(0))
FORM = Form(tool_call_id=ToolCallId("c"), message="Which one?", seq=Seq(0))


class Person:
    """Answers when the test says so; remembers what was withdrawn."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.may_answer = anyio.Event()
        self.withdrawn = 0
        self.outcome = "allowed"
        self.failure: Exception | None = None

    async def is_asked(self) -> None:
        with anyio.fail_after(PATIENCE):
            await self.asked.wait()

    async def _wait(self) -> None:
        self.asked.set()
        try:
            await self.may_answer.wait()
        except anyio.get_cancelled_exc_class():
            self.withdrawn += 1
            raise
        if self.failure is not None:
            raise self.failure

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        await self._wait()
        return PermissionAnswer(outcome=self.outcome)  # pyright: ignore - the test chooses

    async def fill(self, form: Form) -> FormAnswer:
        await self._wait()
        return FormAnswer(outcome="accepted", values={"who": self.outcome})


@pytest.mark.parametrize("is_editor_first", [False, True])
async def test_first_answer_counts_and_withdraws_the_other_question(is_editor_first: bool) -> None:
    askers, editor, page = Askers(), Person(), Person()
    editor.outcome, page.outcome = "rejected", "allowed"
    askers.attach(editor, editor)
    askers.join(page)
    first, other = (editor, page) if is_editor_first else (page, editor)

    async def answered(ask: Callable[[], Awaitable[PermissionAnswer | FormAnswer]]) -> str:
        for person in (editor, page):
            person.asked, person.may_answer, person.withdrawn = anyio.Event(), anyio.Event(), 0
        answers: list[PermissionAnswer | FormAnswer] = []

        async def wait() -> None:
            answers.append(await ask())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await editor.is_asked()
            await page.is_asked()
            first.may_answer.set()
        (answer,) = answers
        return answer.outcome if isinstance(answer, PermissionAnswer) else str(answer.values["who"])

    for ask in (lambda: askers.ask(QUESTION), lambda: askers.fill(FORM)):
        assert (await answered(ask), first.withdrawn, other.withdrawn) == (first.outcome, 0, 1)


async def test_who_joins_is_asked_what_waits_already() -> None:
    askers, editor, page = Askers(), Person(), Person()
    askers.attach(editor, editor)
    answers: list[PermissionAnswer] = []

    async def wait() -> None:
        answers.append(await askers.ask(QUESTION))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await editor.is_asked()
        askers.join(page)
        await page.is_asked()
        page.may_answer.set()
    assert answers == [PermissionAnswer(outcome="allowed")]
    assert editor.withdrawn == 1
    askers.leave(page)
    page.asked = anyio.Event()
    editor.may_answer.set()
    assert (await askers.ask(QUESTION)).outcome == "allowed"
    assert not page.asked.is_set()


async def test_failure_is_that_of_who_was_asked() -> None:
    askers, editor, page = Askers(), Person(), Person()
    editor.failure = ValueError("the editor failed")
    askers.attach(editor, None)
    askers.join(page)
    editor.may_answer.set()
    with pytest.raises(ValueError, match="the editor failed"):
        await askers.ask(QUESTION)
    assert page.withdrawn == 1


async def test_cancelled_question_is_withdrawn_everywhere() -> None:
    askers, editor, page = Askers(), Person(), Person()
    askers.attach(editor, editor)
    askers.join(page)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(askers.ask, QUESTION)
        await page.is_asked()
        tasks.cancel_scope.cancel()
    assert (editor.withdrawn, page.withdrawn) == (1, 1)


async def test_nobody_is_asked_where_nobody_is() -> None:
    askers, page = Askers(), Person()
    assert (askers.permissions, askers.forms) == (None, None)
    askers.join(page)
    assert (askers.permissions, askers.forms) == (askers, askers)
    page.may_answer.set()
    assert (await askers.ask(QUESTION)).outcome == "allowed"
    askers.leave(page)
    assert (askers.permissions, askers.forms) == (None, None)


async def test_session_asks_whoever_joined(tmp_path: Path) -> None:
    """Without a program that answers, and until it leaves."""
    written = tmp_path / "written.txt"
    model = AnsweringModel(runs(f"write({str(written)!r}, 'new')", typed=False))
    async with session_in(tmp_path, model=model, environments=in_process) as session:
        page = Person()
        page.may_answer.set()
        stop = session.ask_also(page)
        await session.accept("go").end()
        assert page.asked.is_set()
        assert written.read_text() == "new"
        stop()
        page.asked = anyio.Event()
        await session.accept("go").end()
        assert not page.asked.is_set()
