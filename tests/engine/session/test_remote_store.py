"""Sessions in a store that a network may delay: no command waits for it on the event loop."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.log.events.execution import ExecutionStarted
from engine.log.store.memory import MemoryStore
from engine.session.commands.files import NO_FILES
from engine.session.commands.table import COMMANDS
from engine.session.session import Session
from tests.support.models import AnsweringModel, runs, says
from tests.support.remote_stores import RemoteStore
from tests.support.sessions import answer_to, sessions_of
from tests.support.workers import PATIENCE

pytestmark = pytest.mark.anyio
ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "context": ("", "tail", "1"),
    "views": ("", "all"),
    "timeline": ("", "2", "2.1"),
    "model": ("",),
    "cost": ("",),
    "sandbox": ("",),
    "changes": ("", "1"),
    "diff": ("main",),
    "tick": ("",),
    "run": ("z = read('a.txt')",),
    "omit": ("", "1", "1"),
    "undo": ("--dry-run", ""),
    "redo": ("--dry-run", ""),
    "replay": ("2",),
    "edit": ("2\nwrite('a.txt', 'other')",),
    "rewind": ("2 --dry-run", "2"),
    "branch": ("", "main"),
    "page": ("",),
    "help": ("",),
    "compact": ("",),
}
"""Of each command, in an order in which each has something to do."""
STATEMENTS: Final = (
    "v = view('a.txt')",
    "write('a.txt', 'two\\n' * 9)",
    "import pathlib; pathlib.Path('b.txt').write_text('made')",
    "bash('echo three >> a.txt')",
)


async def until_running(session: Session) -> None:
    subscription = session.subscribe()
    async for batch in subscription.batches(0):
        if any(isinstance(item, ExecutionStarted) for item in batch):
            return


async def test_no_command_waits_for_the_store_on_the_event_loop(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    store, stop = RemoteStore(MemoryStore(SystemClock())), tmp_path / "stop"
    model = AnsweringModel(runs(*STATEMENTS), says("It was long."))
    assert ARGUMENTS.keys() == COMMANDS.keys()
    typed = [(name, f"/{name} {argument}".strip()) for name, each in ARGUMENTS.items() for argument in each]
    async with sessions_of(tmp_path / "state", store, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        assert (await session.accept("go").end()).cause == "end_turn"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                session.cell, f"import time\nwhile not pathlib.Path({str(stop)!r}).exists(): time.sleep(0.001)"
            )
            await until_running(session)
            for name, text in typed:
                if COMMANDS[name].glance is not None:
                    with anyio.fail_after(PATIENCE):
                        assert (await session.accept(text).end()).cause == "end_turn"
            assert session.is_busy
            stop.touch()
        for _, text in typed:
            await session.accept(text).end()
        await sessions.close(session.session_id)
        session = await sessions.load(session.session_id)
        assert await answer_to(session, "/changes") != NO_FILES
        await session.accept("and more").end()
    assert store.waits == []
