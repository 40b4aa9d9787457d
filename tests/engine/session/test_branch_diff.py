"""What two branches differ in: statements, names and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import Session
from engine.core.ids import BranchId
from engine.log.events.conversation import AgentText
from engine.session.commands.timeline import diff_lines
from engine.session.past.branch_diff import BranchDiff
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


async def said(session: Session, text: str) -> str:
    await session.accept(text).end()
    return [event.text for event in session.path if isinstance(event, AgentText)][-1]


async def ran(session: Session, *sources: str) -> None:
    for source in sources:
        finished = await session.cell(source)
        assert finished.exception is None, finished.exception


async def test_statements_names_and_files_that_differ_are_listed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(tmp_path / "project"))
        await ran(session, "same = 1; x = [1]; gone = 1\nw = write('same', '1'); w = write('a', '1'); w = None")
        await ran(session, "x.append(2); own = 'main'\nw = write('a', 'main'); w = write('only', '1'); w = None")
        assert await said(session, "/diff main") == "main cannot be compared with itself; name another branch."
        await session.rewind(1)
        await ran(session, "x.append(3); del gone\nw = write('a', 'b1'); w = write('b', '1'); w = None")
        lines = (await said(session, "/diff main")).splitlines()
        assert lines[0] == "`main` and `b1` have statement 1 in common."
        assert lines[2:5:2] == ["On `main` alone:", lines[4]]
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
            "- `b`: on `b1` alone",
            "- `only`: on `main` alone",
        ]
        swapped = (await said(session, "/diff b1 main")).splitlines()
        assert swapped[-3:] == [lines[-3], "- `b`: on `b1` alone", "- `only`: on `main` alone"]
        assert swapped[-7] == "- `x`: `[1, 3]` on `b1`, `[1, 2]` on `main`"
        for text, answer in (
            ("/diff x", "There is no branch x; the session has main, b1."),
            ("/diff a b c", "`/diff` takes two branches, or one to be compared with the active one."),
            ("/diff", "`/diff` needs the names of one or two branches: `/diff A [B]`."),
        ):
            assert await said(session, text) == answer


async def test_branches_that_are_alike_differ_in_nothing() -> None:
    alike = BranchDiff(BranchId("main"), BranchId("b1"), 2, (), (), (), ())
    assert diff_lines(alike, "/") == ["`main` and `b1` have statements 1 to 2 in common.", "They differ in nothing."]
