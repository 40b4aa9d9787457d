"""The session that the page is measured with has what its page shows."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from benchmarks.measuring import script
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.redaction import NO_SECRETS
from engine.log.store.sqlite import SqliteStore
from engine.session.session_json import Contents, SessionDocument

STATEMENTS = 170


def test_session_has_its_statements_with_calls_files_and_words(tmp_path: Path) -> None:
    path, name = tmp_path / "sessions.db", SessionId("ses_long")
    subprocess.run([sys.executable, script("pages.py"), str(path), name, str(STATEMENTS)], check=True)
    with closing(SqliteStore(path, SystemClock())) as store:
        document = SessionDocument(name, Contents(store.blob_get, NO_SECRETS).text)
        for event in store.load(name):
            document.apply(event)
        found = document.document()
    assert [entry.index for entry in found["statements"]] == [*range(1, STATEMENTS + 1)]
    assert [entry.status for entry in found["executions"]].count("error") == 4
    calls = found["calls"]
    assert len(calls) == STATEMENTS
    assert all(entry.answered and entry.messages for entry in calls[1:])
    # A prompt grows until it is full, and then begins again.
    assert sum(entry.kept == 0 for entry in calls) == 2
    assert {message.problem for message in found["messages"]} == {""}
    assert len(found["files"]) == 43
    assert all(entry.regions for file in found["files"] for entry in file.changes)
