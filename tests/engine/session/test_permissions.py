"""Whoever is attached to a session is asked before a model's statement runs, as long as nothing was decided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import PermissionAnswer
from engine.core.execution import TextChange
from engine.log.events.conversation import Attachment
from engine.log.permissions import FileSubject, StatementSubject
from tests.support.in_process import InProcessEnvironment
from tests.support.permissions import FixedPermissions
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

ALLOWED = PermissionAnswer(outcome="allowed")
REJECTED = PermissionAnswer(outcome="rejected")
FOR_EVER = PermissionAnswer(outcome="allowed", remember=True)


@pytest.mark.parametrize(
    ("answers", "asked", "ran"),
    [((ALLOWED, REJECTED), 2, [True, False]), ((FOR_EVER,), 1, [True, True])],
    ids=["each time", "remembered"],
)
async def test_a_model_s_statement_runs_where_the_user_allows_it(
    tmp_path: Path, answers: tuple[PermissionAnswer, ...], asked: int, ran: list[bool]
) -> None:
    script = tmp_path / "replies.jsonl"
    replies = [reply for number in range(2) for reply in ({"statement": f"x = {number}"}, {"text": "Next."})]
    script.write_text("\n".join(json.dumps(reply) for reply in replies))
    user = FixedPermissions(answers)
    settings: dict[str, object] = {"model": f"scripted:{script}"}
    async with sessions_of(tmp_path, environments=lambda: InProcessEnvironment(len), settings=settings) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(user)
        for _ in ran:
            assert (await session.accept("go").end()).cause == "end_turn"
        assert [question.subject for question in user.questions] == list(
            map(StatementSubject, ["x = 0", "x = 1"][:asked])
        )
        assert [cell.finished is not None for cell in session.cells] == ran


async def test_what_opens_an_attachment_stands_for_no_act_of_the_statements_before_it(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    planted = """
import sys
def spy(frame, event, argument):
    if frame.f_code.co_name == "_view":
        sys.setprofile(None)
        write("planted.txt", "x")
sys.setprofile(spy)
"""
    script.write_text("\n".join(json.dumps(reply) for reply in ({"statement": planted}, {"text": "Next."})))
    user = FixedPermissions([REJECTED])
    settings: dict[str, object] = {"model": f"scripted:{script}"}
    async with sessions_of(tmp_path, environments=lambda: InProcessEnvironment(len), settings=settings) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(user)
        session.set_option("ask_about", "acts")
        await session.accept("go").end()
        await session.accept(["look", Attachment(uri="mem://notes", name="notes", text="note\n")]).end()
        (question,) = user.questions
        assert question.subject == FileSubject(
            path=str(tmp_path / "planted.txt"), changes=(TextChange(line=1, old=None, new="x"),)
        )
    assert not (tmp_path / "planted.txt").exists()
