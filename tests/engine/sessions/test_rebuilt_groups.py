"""Groups after their worker died, and after the session was opened again: as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import Session
from engine.events.session import EnvironmentRestored
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

END = "import os; os._exit(1)"
PROBE = "[(n, g.GetDigest(), g.Render().text) for n, g in (('g', g), ('outer', outer), ('frozen', frozen))]"
STATEMENTS = (
    "a = view('a.py', freq='Sync'); b = view('b.py'); g = group(a, b, tokens=200)",
    "outer = group(g, view(text='some'), lod=3); frozen = group(a).Pause(); pin(frozen, 'as it was')",
    "g.Remove(b); outer.Add(b); outer.min_turn_interval = 2",
    "ls()",
)


async def _said(session: Session) -> str | None:
    await session.cell(PROBE)
    finished = [event for event in session.events if event.kind == "execution_finished"][-1]
    return getattr(finished, "value", None)


async def test_groups_are_after_a_death_of_their_worker_what_they_were(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.py").write_text("one\ntwo\n")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in STATEMENTS:
            await session.cell(source)
        (tmp_path / "a.py").write_text("one\nthree\nfour\n")
        await session.tick()
        before = await _said(session)
        assert before is not None
        assert "three" in before
        await session.cell(END)
        (tmp_path / "a.py").write_text("nobody has seen this\n")
        after = await _said(session)
    restored = [event for event in session.events if isinstance(event, EnvironmentRestored)]
    assert [each.divergences for each in restored] == [()]
    assert after == before
