"""A file that is read by pages, in a session: what of it is kept, and what a load shows of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine import Session, Store
from engine.core.ids import SessionId
from engine.files.revision import LARGEST, digest_of
from engine.log.events.nodes import RevisionAdopted
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.sessions import events_of, in_process, sessions_of

pytestmark = pytest.mark.anyio
SECRET = "s3cret-of-ours-that-is-long"
LEAST = -(-len(SECRET) // 2)
LINE = "a line of a log that is long enough, with number %08d\n"
LINES = LARGEST // len(LINE % 0) + 1_000


@pytest.fixture
def store() -> Store:
    return MemoryStore(FixedClock())


@asynccontextmanager
async def opened(tmp_path: Path, store: Store, session_id: SessionId | None = None) -> AsyncIterator[Session]:
    async with sessions_of(tmp_path, store, environments=in_process, clock=FixedClock(), TOKEN=SECRET) as sessions:
        yield await (sessions.create(str(tmp_path)) if session_id is None else sessions.load(session_id))


async def _shown(session: Session, source: str) -> str:
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    return "".join(display.text for display in finished.displays)


def _adopted(session: Session) -> list[RevisionAdopted]:
    return events_of(session, RevisionAdopted)


async def test_load_shows_the_pages_of_a_barely_kept_file(tmp_path: Path, store: Store) -> None:
    log = tmp_path / "big.log"
    data = "".join(LINE % number for number in range(1, LINES + 1)).encode()
    log.write_bytes(data)
    async with opened(tmp_path, store) as session:
        assert f"{LINES}\t" in await _shown(session, f"v = view('big.log', '{LINES}', tokens=400)")
        middle = await _shown(session, "show(v.SetPos('200000'))")
        index, *pages = _adopted(session)
        assert (index.state, index.digest, index.size) == ("paged", digest_of(data), len(data))
        assert [page.content is not None for page in pages] == [True] * len(pages)
        kept = [store.blob_get(event.content) for event in (index, *pages) if event.content is not None]
        assert sum(map(len, kept)) < 500_000
    log.unlink()
    async with opened(tmp_path, store, session.session_id) as session:
        assert await _shown(session, "show(v)") == middle
        assert "No such file" in await _shown(session, "show(v.SetPos('1000'))")
        assert "(no file big.log;" in await _shown(session, "show(v.Refresh())")


@pytest.mark.parametrize("start", [(64 << 10) - LEAST, (64 << 10) - len(SECRET) + LEAST, 300, (64 << 10) - len(SECRET)])
async def test_no_page_with_a_part_of_a_secret_is_kept(tmp_path: Path, store: Store, start: int) -> None:
    (tmp_path / "dump.json").write_text(f"{'x' * start} {SECRET} {'y' * LARGEST}")
    async with opened(tmp_path, store) as session:
        await _shown(session, "v = view('dump.json', tokens=3_000)")
        for column in (60_000, 66_000, 140_000):
            await _shown(session, f"show(v.SetPos('1:{column}'))")
        pages = _adopted(session)[1:]
        kept = [store.blob_get(page.content).decode() for page in pages if page.content is not None]
        lost = [page for page in pages if page.withheld]
        assert kept
        assert len(lost) == 1
        assert not [data for data in kept if SECRET[:LEAST] in data or SECRET[-LEAST:] in data]
