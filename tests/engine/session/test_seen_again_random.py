"""Sessions of random statements on views, file changes, ticks, model calls and stops are the same after a load."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from engine import Environment, Session, Store
from engine.context.tail.section_parts import EARLIER, EARLIER_ALONE
from engine.core.ids import SessionId
from engine.files.tails import HandleRow
from engine.log.events.session import EnvironmentRestored
from engine.log.store.memory import MemoryStore
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.in_process import InProcessEnvironment
from tests.support.models import AnsweringModel, says
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

_NAMES = ("a", "b", "c/d")
_CONTENTS = (b"one\n", b"two\n", b"one\ntwo\nthree\n", b"", b"\xff\x00\xfe", b"caf\xe9\n", None, "folder")
_SOURCES = (
    "h{n} = view('{p}', freq='Async')", "h{n}.Run(('Periodic', 1e-9))", "x{n} = len(tick()), h{n}.Render().text",
    "h{n} = view('{p}')", "h{n} = view('{p}', freq='Sync')", "h{n} = view('{p}', text='mine\\n', freq='Sync')",
    "h{n}.Refresh()", "h{n}.Run()", "h{n}.Pause()", "h{n}.SetTokens(50)", "del h{n}", "show(h{n})", "h{n}.Scroll(1)",
    "h{n}.min_turn_interval = 2", "x{n} = h{n}.dirty, h{n}.changed, h{n}.last_tick_time, h{n}.obj_id, repr(h{n})",
    "g = [h{n}, view('{p}')]", "k{n} = {{'a': h{n}}}", "h{n} = g[0]", "h{n}.Refresh(); g = view('{p}'); 1 / 0",
    "ls()", "[view('{p}') for _ in range(3)]; None", "h{n}.SetPos('2'); j{n} = view('{p}')",
    "def f(h=h{n}): return h", "x{n} = f().obj_id, f().rendered.text",
)  # fmt: skip
_STATE = (
    "print([(n, type(v).__name__, repr(v) if n[0] == 'x' else None,"
    " (v.GetDigest(), v.dirty, v.changed, v.last_tick_turn, v.last_tick_time, v.Render().text)"
    " if hasattr(v, 'GetDigest') else None) for n, v in sorted(globals().items()) if n[0] in 'hxgkj' and len(n) < 3])"
)
_OF_THE_REBUILD = ("namespace:", "Changed since your last statement:")


class _Seen(Struct, frozen=True):
    """What there is to see of a session: names and handles, the handle table, and what the next model call is told."""

    names: str
    handles: tuple[HandleRow, ...]
    told: tuple[str, ...]


async def _seen(session: Session) -> _Seen:
    projection = await session.projection()
    finished = await session.cell(_STATE)
    assert finished.exception is None, finished.exception
    lines = projection.prompt.tail.splitlines()
    # Earlier changes have another heading below those of the rebuild.
    lines = [EARLIER_ALONE.rstrip() if line == EARLIER.rstrip() else line for line in lines]
    told = tuple(line for line in lines if not line.startswith(_OF_THE_REBUILD))
    return _Seen(finished.stdout.text, projection.handles, told)


class _Player:
    """One random session over its lives."""

    def __init__(self, root: Path, seed: int) -> None:
        root.mkdir()
        self._root = root
        self._random = random.Random(seed)
        self._store: Store = MemoryStore(FixedClock())
        self._clock = FixedClock()
        self._entropy = CountingEntropy()
        self._session: SessionId | None = None
        self.history: list[str] = []

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Session]:
        """The session, made or loaded."""
        async with sessions_of(
            self._root,
            self._store,
            model=AnsweringModel(says("Well.")),
            environments=_in_process,
            clock=self._clock,
            entropy=self._entropy,
        ) as sessions:
            if self._session is None:
                session = await sessions.create(str(self._root))
            else:
                session = await sessions.load(self._session)
            self._session = session.session_id
            yield session

    async def play(self, session: Session) -> None:
        for _ in range(self._random.randint(1, 12)):
            chance = self._random.random()
            if chance < 0.25:
                self.change()
            elif chance < 0.8:
                await self._run(session)
            else:
                self._clock.time += 1
                self.history.append("a model call")
                await session.accept("go on").end()

    async def _run(self, session: Session) -> None:
        source = self._random.choice(_SOURCES).format(n=self._random.randint(0, 2), p=self._random.choice(_NAMES))
        is_stopped = self._random.random() < 0.1
        source += "\nwhile True: pass" if is_stopped else ""
        self.history.append(source)
        await session.cell(source, seconds=0.1 if is_stopped else None)

    def change(self) -> None:
        """Puts something else in the place of a file."""
        name, content = self._random.choice(_NAMES), self._random.choice(_CONTENTS)
        self.history.append(f"{name} is {content!r}")
        path = self._root / name
        path.parent.mkdir(exist_ok=True)
        if path.is_dir():
            path.rmdir()
        elif path.exists():
            path.unlink()
        if isinstance(content, bytes):
            path.write_bytes(content)
            os.utime(path, (len(self.history), len(self.history)))
        elif content is not None:
            path.mkdir()


def _in_process() -> Environment:
    return InProcessEnvironment(len)


async def _check(root: Path, seed: int) -> None:
    player = _Player(root, seed)
    before: _Seen | None = None
    for _ in range(3):
        async with player.life() as session:
            if before is not None:
                assert await _seen(session) == before, (seed, player.history)
                (*_, restored) = (event for event in session.events if isinstance(event, EnvironmentRestored))
                unexpected = [line for line in restored.divergences if "was stopped" not in line]
                assert unexpected == [], (seed, player.history)
            await player.play(session)
            before = await _seen(session)
        player.change()


async def test_a_random_session_is_the_same_after_a_load(tmp_path: Path) -> None:
    await _check(tmp_path / "project", 1)


@pytest.mark.slow
async def test_random_sessions_are_the_same_after_loads(tmp_path: Path) -> None:
    for seed in range(1_000, 1_150):
        await _check(tmp_path / str(seed), seed)
