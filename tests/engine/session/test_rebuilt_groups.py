"""Groups after their worker died, and after the session was opened again: as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import Session
from engine.log.events.session import EnvironmentRestored
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

END = "import os; os._exit(1)"
NAMES = ("g", "outer", "frozen", "files")
PROBE = f"[(n, globals()[n].GetDigest(), globals()[n].Render().text) for n in {NAMES}]"
STATEMENTS = (
    "a = view('a.py', freq='Sync'); b = view('b.py'); g = group(a, b, tokens=200)",
    "outer = group(g, view(text='some'), lod=3); frozen = group(a).Pause(); pin(frozen, 'as it was')",
    "g.Replace(b, view(text='other')); outer.Add(b); outer.min_turn_interval = 2",
    "files = group('src', '*.md', lod=0); outer.Add(files)",
    "ls()",
)


async def _said(session: Session) -> str | None:
    await session.cell(PROBE)
    finished = [event for event in session.events if event.kind == "execution_finished"][-1]
    return getattr(finished, "value", None)


async def test_groups_are_after_a_death_of_their_worker_what_they_were(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.py").write_text("one\ntwo\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/x.py").write_text("first content\n")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in STATEMENTS:
            await session.cell(source)
        (tmp_path / "a.py").write_text("one\nthree\nfour\n")
        (tmp_path / "src/x.py").write_text("second content\n")
        (tmp_path / "src/y.py").write_text("another\n")
        await session.tick()
        before = await _said(session)
        assert before is not None
        assert "three" in before
        assert "second content" in before
        assert "another" in before
        await session.cell(END)
        for name in ("a.py", "src/x.py", "src/unseen.py"):
            (tmp_path / name).write_text("nobody has seen this\n")
        (tmp_path / "src/y.py").unlink()
        after = await _said(session)
    restored = [event for event in session.events if isinstance(event, EnvironmentRestored)]
    assert [each.divergences for each in restored] == [()]
    assert after == before
