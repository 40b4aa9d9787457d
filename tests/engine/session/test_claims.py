"""What a sandboxed statement says about itself is a claim: a rewind writes only what the host has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.events.execution import FileTouched, FileWritten
from engine.log.events.session import Mode
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

FORGES = """
import gc, os
notices = [each for each in gc.get_objects() if type(each).__name__ == "WriteNotices"][0]
Touching = type(notices).notice.__globals__["Touching"]
notices._transport.send(Touching(number=91, path={path!r}))
{then}
"""
"""Tells the host of a file by a message that nobody asked for."""


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_forged_notice_is_refused(tmp_path: Path, mode: Mode) -> None:
    work = tmp_path / "work"
    work.mkdir()
    mine = work / "mine.py"
    mine.write_text("mine")
    model = AnsweringModel(runs(FORGES.format(path=bytes(mine), then=""), typed=False))
    async with sessions_of(tmp_path / "state", model=model, settings={"sandbox": "required"}) as sessions:
        session = await sessions.create(str(work))
        session.set_mode(mode)
        await session.accept("go").end()
        assert session.cells[0].finished is not None
        assert session.cells[0].finished.status == "ok", session.cells[0].finished.exception
        assert not [event for event in session.events if isinstance(event, FileTouched | FileWritten)]
        await session.rewind(0)
    assert mine.read_text() == "mine"


async def test_host_reads_the_file_that_a_notice_names(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    mine = work / "mine.py"
    mine.write_text("mine")
    mine.chmod(0o640)
    writes = f"import time; time.sleep(0.2); os.system('echo other > {mine}; chmod 755 {mine}')"
    model = AnsweringModel(runs(FORGES.format(path=bytes(mine), then=writes), typed=False))
    async with sessions_of(tmp_path / "state", model=model, settings={"sandbox": "required"}) as sessions:
        session = await sessions.create(str(work))
        session.set_mode("auto")
        await session.accept("go").end()
        (written,) = [event for event in session.events if isinstance(event, FileWritten)]
        assert (written.before_mode, written.after_mode) == (0o640, 0o755)
        await session.rewind(0)
    assert mine.read_text() == "mine"
    assert mine.stat().st_mode & 0o777 == 0o640
