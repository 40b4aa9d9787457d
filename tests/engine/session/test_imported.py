"""Where an imported session works: what its file says of that is somebody else's word."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from engine.cli.transfer.jsonl import export_lines, import_lines
from engine.core.errors import InvalidRequestError
from engine.core.ids import ExecutionId, SessionId
from engine.log.events.execution import FileTouched, FileWritten
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
NEW = SessionId("ses_new")


async def imported(folder: Path, cwd: str, directories: list[str], store: MemoryStore) -> None:
    """A session whose file names these directories."""
    source = MemoryStore(FixedClock())
    async with sessions_of(folder / "source", source) as sessions:
        session = await sessions.create(str(folder))
        await session.accept("1 + 1").end()
    header, *lines = export_lines(source, session.session_id)
    fields = json.loads(header) | {"cwd": cwd, "directories": directories}
    import_lines(store, io.BytesIO(b"".join([json.dumps(fields).encode() + b"\n", *lines])), "it", NEW)


@pytest.mark.parametrize(("cwd", "directories"), [("/", []), ("{}", ["/"]), ("{}", ["{}/inner", "/etc"])])
async def test_only_somebody_here_says_that_it_works_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: str, directories: list[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    store = MemoryStore(FixedClock())
    await imported(tmp_path, cwd.format(project), [each.format(project) for each in directories], store)
    async with sessions_of(tmp_path / "here", store) as sessions:
        with pytest.raises(InvalidRequestError, match="was imported and works in /"):
            await sessions.load(NEW)
        session = await sessions.load(NEW, str(project), [])
        assert (session.cwd, session.directories) == (str(project), ())
        await sessions.close(NEW)
        again = await sessions.load(NEW)
        assert (again.cwd, again.directories) == (str(project), ())


async def test_within_the_directory_that_the_program_runs_in_the_file_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project/inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    store = MemoryStore(FixedClock())
    await imported(tmp_path, str(tmp_path / "project"), [str(tmp_path / "project/inner")], store)
    async with sessions_of(tmp_path / "here", store) as sessions:
        assert (await sessions.load(NEW)).cwd == str(tmp_path / "project")


async def test_a_statement_that_the_file_says_is_under_way_has_no_file_looked_at(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("of the user")
    store = MemoryStore(FixedClock())
    source = MemoryStore(FixedClock())
    async with sessions_of(tmp_path / "source", source) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("1 + 1").end()
        name = session.session_id
    header, *lines = export_lines(source, name)
    events = [event for event in map(json.loads, lines) if "kind" in event]
    end = next(number for number, event in enumerate(events) if event["kind"] == "execution_finished")
    touched = FileTouched(execution_id=ExecutionId(events[end]["execution_id"]), path=str(tmp_path / "private"))
    fields = json.loads(header) | {"events": end + 1}
    made = events[end - 1] | {"kind": "file_touched", "seq": end, "event_id": f"e{end}"}
    kept = {key: made[key] for key in ("kind", "v", "seq", "event_id", "at", "branch_id")}
    kept |= {"execution_id": touched.execution_id, "path": touched.path}
    text = "".join(json.dumps(each) + "\n" for each in (fields, *events[:end], kept))
    import_lines(store, io.BytesIO(text.encode()), "it", NEW)
    async with sessions_of(tmp_path / "here", store) as sessions:
        loaded = await sessions.load(NEW, str(tmp_path))
        assert not any(isinstance(event, FileWritten) for event in loaded.events)
        assert store.contents(NEW) == frozenset()
