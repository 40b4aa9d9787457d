"""What a listing costs the SQLite store: values are made of the sessions of a page alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.ids import SessionId
from engine.log.store import stored
from engine.log.store.sqlite import SqliteStore
from engine.log.store.stored import row_of
from tests.support.stores import CountingClock, begun


def test_a_page_decodes_the_rows_of_the_page_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    for number in range(20):
        begun(store, SessionId(f"ses_{number}"), events=1)
    decoded: list[str] = []
    monkeypatch.setattr(stored, "row_of", lambda values: decoded.append(values[0]) or row_of(values))
    page = store.rows(limit=3)
    assert decoded == [row.session_id for row in page] == ["ses_19", "ses_18", "ses_17"]
    decoded.clear()
    store.rows(after=(page[-1].updated_at, page[-1].session_id), limit=2)
    assert decoded == ["ses_16", "ses_15"]
    store.close()
