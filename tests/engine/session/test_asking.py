"""Questions of statements to the user: who is asked what, and what a statement gets, now and when it runs again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from engine import Form, FormAnswer, Session
from engine.core.clock import SystemClock
from engine.core.ids import Seq, ToolCallId
from engine.log.events.conversation import RunStop, ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished
from engine.log.forms import Choice, Field
from engine.log.redaction import HIDDEN
from engine.log.store.memory import MemoryStore
from engine.runtime.results import NO_ANSWER
from engine.session.forms import NOBODY, FormQuestions
from engine.session.tool_calls import NOT_ASKED
from tests.support.forms import FixedForms, accepted
from tests.support.session_parts import session_parts
from tests.support.sessions import events_of, session_in

pytestmark = pytest.mark.anyio
SECONDS = 20.0
ASKING = 'got = ask("Which one?", ["this\\x1b", "that"])'


async def ran(session: Session, source: str) -> ExecutionFinished:
    with anyio.fail_after(SECONDS):
        assert (await session.accept(source).end()).failure is None
    finished = session.cells[-1].finished
    assert finished is not None
    return finished


def told(session: Session) -> list[str]:
    """What the calls of `ask` show at their end."""
    calls = {event.tool_call_id for event in events_of(session, ToolCall) if event.tool == "ask"}
    return [event.text for event in events_of(session, ToolResult) if event.tool_call_id in calls]


async def test_statement_gets_the_choice_or_the_text_of_the_user(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        user = FixedForms([accepted(answer="this\\x1b"), accepted(answer="neither"), accepted(answer="typed")])
        session.attach(None, None, user)
        assert (await ran(session, f"{ASKING}\ngot")).value == repr("this\x1b")
        assert (await ran(session, f"{ASKING}\ngot")).value == repr("neither")
        assert (await ran(session, 'ask("Why?")')).value == repr("typed")
        chosen, _, typed = user.forms
        assert (chosen.message, typed.message) == ("Which one?", "Why?")
        assert [choice.title for choice in chosen.fields[0].choices] == ["this\\x1b", "that"]
        assert typed.fields[0].choices == ()
        assert [event.tool for event in events_of(session, ToolCall) if event.parent_id] == ["ask"] * 3
        assert told(session) == ["this\x1b", "neither", "typed"]


@pytest.mark.parametrize(
    ("answer", "is_said"),
    [
        (FormAnswer(outcome="declined"), False),
        (FormAnswer(outcome="cancelled"), False),
        (FormAnswer(outcome="declined", note="why"), True),
        (accepted(), True),
        (accepted(answer=""), True),
        (accepted(answer=7), True),
        (accepted(answer="x", more="y"), True),
        (accepted(answer=["this"]), True),
    ],
)
async def test_without_a_fitting_answer_the_value_is_none(tmp_path: Path, answer: FormAnswer, is_said: bool) -> None:
    async with session_in(tmp_path) as session:
        session.attach(None, None, FixedForms([answer]))
        finished = await ran(session, f"{ASKING}\n[got]")
        assert finished.value == "[None]"
        assert finished.stdout.text.startswith("ask(): no answer: ") is is_said
        assert told(session)[0].startswith(NO_ANSWER)
        assert session.cells[-1].finished.status == "ok"


async def test_without_a_user_there_is_no_answer_at_once(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        finished = await ran(session, f"{ASKING}\n[got]")
        assert (finished.value, NOBODY in finished.stdout.text) == ("[None]", True)
        assert told(session) == [f"{NO_ANSWER}: {NOBODY}"]


async def test_rebuild_and_load_take_the_recorded_answer(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    user = FixedForms([accepted(answer="that"), FormAnswer(outcome="declined", note="why")])
    async with session_in(tmp_path, store) as session:
        session.attach(None, None, user)
        await ran(session, ASKING)
        await ran(session, 'none = [ask("Why?")]')
        await session.rest()
        assert (await ran(session, "got, none")).value == "('that', [None])"
    async with session_in(tmp_path, store, load=session.session_id) as again:
        again.attach(None, None, user)
        assert (await ran(again, "got, none")).value == "('that', [None])"
    assert len(user.forms) == 2


async def test_edit_takes_the_recorded_answer_and_asks_nothing_new(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        user = FixedForms([accepted(answer="that")])
        session.attach(None, None, user)
        await ran(session, ASKING)
        await session.edit(1, f"{ASKING}\nask('Why?')")
        finished = session.cells[-1].finished
        assert finished is not None
        assert finished.exception is not None
        assert (finished.exception.type, finished.exception.message) == ("PermissionError", NOT_ASKED)
        assert (await ran(session, "got")).value == repr("that")
        assert len(user.forms) == 1


async def test_plan_mode_asks_and_fetches_as_usual(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        session.set_mode("plan")
        session.attach(None, None, FixedForms([accepted(answer="that")]))
        assert (await ran(session, f"{ASKING}\ngot")).value == repr("that")
        finished = await ran(session, "fetch('http://127.0.0.1/')")
        assert finished.exception is not None
        assert finished.exception.message.startswith("fetch(): 127.0.0.1 has the address 127.0.0.1")


class Waiting:
    """A user who never answers; notes when a question comes and goes."""

    def __init__(self) -> None:
        self.asked, self.withdrawn = anyio.Event(), anyio.Event()

    async def fill(self, form: Form) -> FormAnswer:
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.withdrawn.set()
        raise AssertionError


async def test_cancel_withdraws_the_question(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        user = Waiting()
        session.attach(None, None, user)
        ticket = session.accept(ASKING)
        with anyio.fail_after(SECONDS):
            await user.asked.wait()
            session.cancel()
            assert (await ticket.end()).cause == "cancelled"
            await user.withdrawn.wait()
        assert (await ran(session, "'got' in globals()")).value == "False"
        assert [event.status for event in events_of(session, ToolResult) if event.parent_id] == ["cancelled"]


async def test_user_who_closes_the_question_ends_the_turn(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        session.attach(None, None, FixedForms([FormAnswer(outcome="cancelled", ends_turn=True)]))
        await ran(session, ASKING)
        assert events_of(session, RunStop)[-1].cause == "cancelled"


# --- what is shown ----------------------------------------------------------------------------------------------------


def form(fields: Sequence[Field], message: str = "Well?") -> Form:
    return Form(tool_call_id=ToolCallId("c"), message=message, fields=tuple(fields), seq=Seq(1))


async def test_texts_are_shown_without_secrets_and_choices_come_back_whole(tmp_path: Path) -> None:
    secret = "sk-1234567890abcdef"
    questions = FormQuestions(session_parts(tmp_path).redactor.knowing([secret]))
    user = questions.forms = FixedForms([accepted(f=f"use {HIDDEN}", g=["x\\x1b"])])
    fields = [
        Field(
            name="f",
            title=f"T {secret}",
            description=f"D {secret}",
            choices=(Choice(f"use {secret}", f"Use {secret}"), Choice("b", "B")),
            default=f"use {secret}",
        ),
        Field(name="g", type="array", choices=(Choice("x\x1b", "X"),)),
        Field(name="h", default=secret),
    ]
    answer = await questions.ask(form(fields, f"Use {secret}?\x1b"))
    assert answer.values == {"f": f"use {secret}", "g": ["x\x1b"]}
    (shown,) = user.forms
    assert secret not in repr(shown)
    assert shown.message == f"Use {HIDDEN}?\\x1b"
    assert shown.fields[0].default == f"use {HIDDEN}"


async def test_choices_that_look_the_same_are_not_shown(tmp_path: Path) -> None:
    secrets = ["sk-1234567890abcdef", "sk-abcdef1234567890"]
    questions = FormQuestions(session_parts(tmp_path).redactor.knowing(secrets))
    user = questions.forms = FixedForms([])
    with pytest.raises(ValueError, match="look the same"):
        await questions.ask(form([Field(name="f", choices=tuple(Choice(each, each) for each in secrets))]))
    assert user.forms == []
