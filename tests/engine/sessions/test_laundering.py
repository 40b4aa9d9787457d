"""What the kernel refused to a statement is not done by a rebuild with more rights: real workers, a real kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from engine import PermissionAnswer, Session
from engine.config.settings import SandboxRule
from engine.ports import Prompt, StatementAsked, TextDelta
from engine.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

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


def scripted(source: str) -> Callable[[Prompt], Sequence[StatementAsked | TextDelta]]:
    replies: list[StatementAsked | TextDelta] = [StatementAsked(source), TextDelta("Done.")]
    return lambda _: [replies.pop(0)] if replies else [TextDelta("Nothing more.")]


async def rebuilt(session: Session) -> str | None:
    """What has become of the names, after the next statement."""
    finished = await session.cell("sorted(name for name in globals() if name in ('late', 'made'))")
    return finished.value


@pytest.mark.parametrize(
    "how", ["another mode", "a load in another mode", "a load without a sandbox", "a load of direct"]
)
@pytest.mark.parametrize("restore_by", ["re-execution", "checkpoints"])
async def test_what_was_refused_is_not_done_by_a_rebuild(
    tmp_path: Path, how: str, restore_by: Literal["re-execution", "checkpoints"]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    path = str(work / "planted")
    store = MemoryStore(FixedClock())
    model, user = AnsweringModel(scripted(WRITES.format(path=path))), FixedPermissions([NO])
    settings: dict[str, object] = {"sandbox": "required", "restore_by": restore_by}
    async with sessions_of(tmp_path / "state", store, model=model, settings=settings) as sessions:
        session = await sessions.create(str(work))
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
        (cell,) = session.cells
        assert cell.finished is not None
        assert cell.finished.status == "ok"
        if how == "another mode":
            session.set_mode("auto")
            assert await rebuilt(session) == "[]"
    assert os.listdir(work) == []
    rule: SandboxRule = "off" if how == "a load without a sandbox" else "required"
    later = None if how == "a load of direct" else AnsweringModel(scripted("1"))
    async with sessions_of(
        tmp_path / "state", store, model=later, settings={"sandbox": rule, "restore_by": restore_by}
    ) as sessions:
        loaded = await sessions.load(session.session_id)
        loaded.attach(user)
        if how == "a load in another mode":
            loaded.set_mode("auto")
        expected = "['late', 'made']" if how == "a load of direct" else "[]"
        assert await rebuilt(loaded) == expected
    assert os.listdir(work) == []
