"""Logs that earlier programs wrote.

`tests/data/sessions` holds exports and databases: `direct` and `scripted` of one before fields that nothing read were
dropped (`artifacts`, `tags`, `hash_seed`), `before_past` of one that kept neither what nodes saw nor copies of values.
"""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.cli.transfer.jsonl import export_lines, import_lines
from engine.log.store.memory import MemoryStore
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow, Store
from tests.support.stores import ROOT, CountingClock

SESSIONS = ROOT / "tests" / "data" / "sessions"
DROPPED = {"session_opened": "hash_seed", "statement_recorded": "tags", "execution_finished": "artifacts"}
NAMES = ("direct", "scripted", "before_past")


def exported(store: Store, row: SessionRow) -> bytes:
    return b"".join(export_lines(store, row.session_id))


def imported(store: Store, data: bytes) -> SessionRow:
    return import_lines(store, io.BytesIO(data), "it")


def without_what_was_dropped(line: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(line)
    dropped = DROPPED.get(fields.get("kind", ""))
    if dropped is not None:
        del fields[dropped]
    return fields


def as_it_was(name: str, data: bytes) -> list[dict[str, Any]]:
    """The lines of an export without what none has now, and with the one more event that an import adds."""
    read = json.loads if name == "before_past" else without_what_was_dropped
    header, *rest = (read(line) for line in data.splitlines())
    return [{**header, "events": header["events"] + 1}, *rest]


def without_what_was_added(value: Any, old: Any) -> Any:
    """The value without the fields that `old` does not know, at any depth; such a field says nothing."""
    if isinstance(value, dict) and isinstance(old, dict):
        assert not any(value[name] for name in value.keys() - old.keys()), value
        return {name: without_what_was_added(value[name], old[name]) for name in value if name in old}
    if isinstance(value, list) and isinstance(old, list):
        return [without_what_was_added(*pair) for pair in zip(value, old, strict=True)]
    return value


@pytest.mark.parametrize("name", NAMES)
def test_old_log_is_exported_except_for_changed_fields(store: Store, name: str) -> None:
    data = (SESSIONS / f"{name}.jsonl").read_bytes()
    found = exported(store, imported(store, data))
    *lines, added = found.splitlines()
    assert {"kind": "others_wrote", "by": "import"}.items() <= json.loads(added).items()
    for line, old in zip(lines, as_it_was(name, data), strict=True):
        assert without_what_was_added(json.loads(line), old) == old
    again = MemoryStore(CountingClock())
    assert exported(again, imported(again, found)) == found
    store.close()


@pytest.mark.parametrize("name", ["direct", "before_past"])
def test_an_old_database_holds_what_its_old_export_holds(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(gzip.decompress((SESSIONS / f"{name}.db.gz").read_bytes()))
    old, fresh = SqliteStore(path, CountingClock()), MemoryStore(CountingClock())
    row = imported(fresh, (SESSIONS / f"{name}.jsonl").read_bytes())
    assert [replace(kept, size=row.size, events=row.events) for kept in old.rows()] == [row]
    assert old.load(row.session_id) == fresh.load(row.session_id)[:-1]
    assert exported(old, row).splitlines()[1:] == exported(fresh, row).splitlines()[1:-1]
    old.close()
