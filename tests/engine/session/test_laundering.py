"""What the kernel refused to a statement is not done by a rebuild with more rights: real workers, a real kernel."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, get_args

import pytest

from engine import PermissionAnswer, PermissionQuestion, Session, Sessions, Store
from engine.context.model import Prompt, StatementAsked, TextDelta
from engine.core.errors import InvalidRequestError
from engine.core.execution import ReplayMode
from engine.core.settings import SandboxRule
from engine.log.permissions import PermissionSubject, StatementSubject
from engine.log.store.memory import MemoryStore
from engine.session import saved_state
from engine.session.requests import EditMode
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import session_in, sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RestoreBy = Literal["re-execution", "checkpoints"]
NO = PermissionAnswer(outcome="rejected")
WRITES = """
import ctypes
C = ctypes.CDLL(None, use_errno=True)
made = C.open({path!r}.encode(), 0o101, 0o600)
class Late:
    def __reduce__(self):
        return exec, ("import ctypes; ctypes.CDLL(None).open({path!r}.encode(), 0o101, 0o600)",)
late = Late()
"""
"""Writes by itself, and again where a copy of `late` is loaded."""


@pytest.fixture(autouse=True)
def keeps_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """With checkpoints, one is taken after every statement."""
    monkeypatch.setattr(saved_state, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(saved_state, "_TIMES_COST", 0)


class User:
    """Says yes to questions of these kinds."""

    def __init__(self) -> None:
        self.allows: tuple[type[PermissionSubject], ...] = ()
        self.asked: list[PermissionSubject] = []

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question.subject)
        return PermissionAnswer(outcome="allowed") if isinstance(question.subject, self.allows) else NO


def scripted(source: str) -> Callable[[Prompt], Sequence[StatementAsked | TextDelta]]:
    replies: list[StatementAsked | TextDelta] = [StatementAsked(source), TextDelta("Done.")]
    return lambda _: [replies.pop(0)] if replies else [TextDelta("Nothing more.")]


async def rebuilt(session: Session) -> str | None:
    """What has become of the names, after the next statement."""
    finished = await session.cell("sorted(name for name in globals() if name in ('late', 'made'))")
    return finished.value


@asynccontextmanager
async def refused(
    tmp_path: Path,
    store: Store,
    restore_by: RestoreBy,
    source: str = WRITES,
    said: Sequence[PermissionAnswer] = (NO,),
    first: str = "",
) -> AsyncGenerator[tuple[Sessions, Session, Path]]:
    """A session in `ask` in which a model's statement has tried to make `planted`; and where that would be.

    `said` are the answers of the user, who has typed the `first` statement.
    """
    work = tmp_path / "work"
    work.mkdir()
    model = AnsweringModel(scripted(source.format(path=str(work / "planted"))))
    settings: dict[str, object] = {"sandbox": "required", "restore_by": restore_by}
    async with sessions_of(tmp_path / "state", store, model=model, settings=settings) as sessions:
        session = await sessions.create(str(work))
        session.attach(FixedPermissions(said))
        if first:
            await session.cell(first)
        assert (await session.accept("go").end()).cause == "end_turn"
        finished = session.cells[-1].finished
        assert finished is not None
        assert finished.status == "ok"
        yield sessions, session, work
    assert os.listdir(work) == []


@pytest.mark.parametrize(
    "how", ["another mode", "a load in another mode", "a load without a sandbox", "a load of direct"]
)
@pytest.mark.parametrize("restore_by", get_args(RestoreBy))
async def test_what_was_refused_is_not_done_by_a_rebuild(tmp_path: Path, how: str, restore_by: RestoreBy) -> None:
    store = MemoryStore(FixedClock())
    async with refused(tmp_path, store, restore_by) as (_, session, work):
        if how == "another mode":
            session.set_mode("auto")
            assert await rebuilt(session) == "[]"
    rule: SandboxRule = "off" if how == "a load without a sandbox" else "required"
    later = None if how == "a load of direct" else AnsweringModel(scripted("1"))
    async with session_in(
        tmp_path / "state",
        store,
        load=session.session_id,
        model=later,
        settings={"sandbox": rule, "restore_by": restore_by},
    ) as loaded:
        loaded.attach(FixedPermissions([NO]))
        if how == "a load in another mode":
            loaded.set_mode("auto")
        expected = "['late', 'made']" if how == "a load of direct" else "[]"
        assert await rebuilt(loaded) == expected
    assert os.listdir(work) == []


@pytest.mark.parametrize("restore_by", get_args(RestoreBy))
@pytest.mark.parametrize("way", ["network", "fork", "rewind", "branch"])
async def test_nor_on_the_way_to_another_domain(tmp_path: Path, way: str, restore_by: RestoreBy) -> None:
    async with refused(tmp_path, MemoryStore(FixedClock()), restore_by) as (sessions, session, _):
        other = session
        match way:
            case "network":
                session.set_option("network", "on")
            case "fork":
                other = await sessions.fork(session.session_id)
                other.attach(FixedPermissions([NO]))
                other.set_mode("auto")
            case "rewind":
                await session.cell("later = 1")
                session.set_mode("auto")
                await session.rewind(1, files=False)
            case _:
                session.set_mode("auto")
                await session.edit(1, "edited = 1")
                session.attach(FixedPermissions([NO]))
                await session.switch("main", files=False)
        assert await rebuilt(other) == "[]"


@pytest.mark.parametrize("mode", ["recorded", "dry", "live"])
@pytest.mark.parametrize("restore_by", get_args(RestoreBy))
async def test_replay_with_more_rights_needs_consent(tmp_path: Path, mode: ReplayMode, restore_by: RestoreBy) -> None:
    async with refused(tmp_path, MemoryStore(FixedClock()), restore_by) as (_, session, work):
        session.set_mode("auto")
        user = User()
        session.attach(user)
        if mode != "live":
            with pytest.raises(InvalidRequestError):
                await session.replay(1, mode=mode)
            return
        report = await session.replay(1, mode=mode)
        assert (report.outcome, report.detail) == ("failed", "statement 1 was not allowed to run again")
        assert os.listdir(work) == []
        assert await rebuilt(session) == "[]"
        user.allows = (StatementSubject,)
        report = await session.replay(1, mode=mode)
        assert (report.outcome, report.detail) == ("completed", "")
        assert os.listdir(work) == ["planted"]
        (work / "planted").unlink()


@pytest.mark.parametrize("mode", ["recorded", "live"])
@pytest.mark.parametrize("restore_by", get_args(RestoreBy))
async def test_edit_with_more_rights_needs_consent(tmp_path: Path, mode: EditMode, restore_by: RestoreBy) -> None:
    async with refused(tmp_path, MemoryStore(FixedClock()), restore_by, first="before = 1") as (_, session, work):
        session.set_mode("auto")
        user = User()
        session.attach(user)
        report = await session.edit(1, "before = 2", mode=mode)
        assert (report.outcome, report.detail, os.listdir(work)) == (
            "failed",
            "statement 2 was not allowed to run again",
            [],
        )
        (asked,) = user.asked
        assert isinstance(asked, StatementSubject)
        now, _, before = asked.note.partition(" Before, they ran ")
        least = "in a sandbox, without a network, and their own code writes only in their scratch directory"
        assert now.startswith(
            f"Statements have more permissions now than when this one ran. Now they run {least} and {work}"
        )
        assert before.startswith(least)
        assert str(work) not in before
        assert await rebuilt(session) == "[]"
        await session.switch("main", files=False)
        user.allows = (StatementSubject,)
        assert (await session.edit(1, "before = 3", mode=mode)).outcome == "completed"
        assert os.listdir(work) == ["planted"]
        (work / "planted").unlink()
