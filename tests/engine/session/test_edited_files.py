"""Files that statements open to change them, where those run again behind an edited one and nothing may change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine import Environment, PermissionAnswer, Session, Store
from engine.context.model import Prompt, StatementAsked, TextDelta
from engine.core.clock import SystemClock
from engine.log.events.session import EnvironmentRestored
from engine.log.permissions import FileSubject, TreeSubject
from engine.log.store.memory import MemoryStore
from tests.support.fixed import CountingEntropy
from tests.support.in_process import InProcessEnvironment
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import sessions_of
from tests.support.workers import new_worker

pytestmark = pytest.mark.anyio

STATEMENTS = (
    "x = 1",
    "with open('a', 'w') as f: wrote = f.write(f'{x}\\n')",
    "with open('a', 'a') as f: place = f.tell(), f.write('two\\n')",
    "with open('a', 'r+') as f: found = f.read(); back = f.seek(0); changed = f.write('O')",
    "with open('b', 'x') as f: new = f.write('b')",
    "with open('c', 'w') as f: many = [f.write('1')]\nwith open('c', 'a') as f: many += [f.write('2')]\n"
    "w = edit('c', '12', '3456')\nwith open('c', 'rb+') as f: many += [f.read(), f.write(b'!')]",
    "with open('old', 'a') as f: more = f.write('!')",
)
NAMES = "wrote, place, found, changed, new, many, more"


def in_process() -> Environment:
    return InProcessEnvironment(len)


@pytest.fixture(params=["a thread", pytest.param("a process", marks=pytest.mark.slow)])
def environments(request: pytest.FixtureRequest) -> Callable[[], Environment]:
    return in_process if request.param == "a thread" else new_worker


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def outcome(session: Session, number: int, source: str) -> tuple[list[str], list[str]]:
    """The statuses of what ran, and what came out differently."""
    report = await session.edit(number, source)
    assert report.outcome == "completed"
    return [each.status for each in report.executions], [
        f"{each.statement} {each.aspect}" for each in report.divergences
    ]


async def test_files_are_opened_as_they_were_and_what_is_written_again_is_no_difference(
    tmp_path: Path, environments: Callable[[], Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / "old").write_text("old")
    store: Store = MemoryStore(SystemClock())
    entropy = CountingEntropy()
    async with sessions_of(tmp_path / "state", store, environments=environments, entropy=entropy) as sessions:
        session = await sessions.create(str(project))
        for source in STATEMENTS:
            assert (await session.cell(source)).status == "ok", source
        left, names = contents(project), (await session.cell(NAMES)).value
        assert left == {"a": b"O\ntwo\n", "b": b"b", "c": b"3456!", "old": b"old!"}
        # An edit, and an edit of what that has left, which has acted on nothing itself.
        for source in ("x = 0 + 1", "x = 3 - 2"):
            assert await outcome(session, 1, source) == (["ok"] * 8, [])
            assert contents(project) == left
        assert (await session.cell(NAMES)).value == names
        known = session.session_id
    for path in project.iterdir():
        path.unlink()
    async with sessions_of(tmp_path / "state", store, environments=environments, entropy=entropy) as sessions:
        session = await sessions.load(known)
        assert (await session.cell(NAMES)).value == names
        # Also where the disk has nothing of it any more.
        assert await outcome(session, 1, "x = 2 // 2") == (["ok"] * 10, [])
        assert contents(project) == {}


async def test_what_would_be_written_otherwise_is_stopped_where_it_would_land(
    tmp_path: Path, environments: Callable[[], Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    store: Store = MemoryStore(SystemClock())
    entropy = CountingEntropy()
    async with sessions_of(tmp_path / "state", store, environments=environments, entropy=entropy) as sessions:
        session = await sessions.create(str(project))
        for source in (
            "x = 1",
            "f = open('a', 'w'); n = f.write(str(x)); said = ''\ntry: f.close()\nexcept OSError as e: said = str(e)",
            "with open('a', 'a') as f: m = f.write('2')",
            "try: open('b', 'x').close(); made = 'made'\nexcept FileExistsError: made = 'there'",
            "try: open('b', 'x').close(); again = 'made'\nexcept FileExistsError: again = 'there'",
        ):
            assert (await session.cell(source)).status == "ok", source
        statuses, differences = await outcome(session, 1, "x = 2")
        assert statuses == ["ok"] * 5
        assert "2 diff" in differences
        assert {each.split()[0] for each in differences} == {"1", "2"}
        assert contents(project) == {"a": b"12", "b": b""}
        said = "'no answer to this is recorded, and an edit without --live changes nothing; write() was not done'"
        assert (await session.cell("said")).value == said
        assert (await session.cell("made, again, m, x")).value == "('made', 'there', 1, 2)"
        statuses, _ = await outcome(session, 5, "with open('c', 'w') as f: f.write('no')")
        assert statuses[0] == "error"
        assert sorted(contents(project)) == ["a", "b"]
        known = session.session_id
    async with sessions_of(tmp_path / "state", store, environments=environments, entropy=entropy) as sessions:
        session = await sessions.load(known)
        assert (await session.cell("said")).value == said
        assert sorted(contents(project)) == ["a", "b"]


async def test_what_nobody_is_asked_for_is_refused_in_the_words_of_an_edit_also_in_a_rebuild(
    tmp_path: Path,
) -> None:
    store: Store = MemoryStore(SystemClock())
    entropy = CountingEntropy()
    made = tmp_path / "made"
    async with sessions_of(tmp_path / "state", store, environments=in_process, entropy=entropy) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await session.cell(f"import os\ntry: os.mkdir({str(made)!r})\nexcept OSError as e: said = str(e)")
        made.rmdir()
        await session.edit(1, "x = 2")
        said = (await session.cell("said")).value or ""
        assert said[1:].startswith(
            "an edit without --live changes nothing outside; this statement was kept from os.mkdir"
        )
        known = session.session_id
    async with sessions_of(tmp_path / "state", store, environments=in_process, entropy=entropy) as sessions:
        session = await sessions.load(known)
        assert (await session.cell("said")).value == said
        (restored,) = [event for event in session.events if isinstance(event, EnvironmentRestored)]
        assert restored.divergences == ()
    assert not made.exists()


IN_SANDBOX = (
    "import os, pathlib, shutil; x = 1",
    "pathlib.Path('d/e').mkdir(parents=True); p = pathlib.Path('d/e/a').write_text('one')",
    "with pathlib.Path('d/e/a').open('a') as f: f.write('two')\nos.rename('d/e/a', 'd/b')",
    "os.chmod('d/b', 0o600); os.symlink('b', 'd/link'); os.remove('d/link'); os.utime('d/b', (5, 5))",
    "shutil.rmtree('d'); left = os.path.exists('d')",
)


def replying(*sources: str) -> Callable[[Prompt], Sequence[StatementAsked | TextDelta]]:
    replies: list[StatementAsked | TextDelta] = [*map(StatementAsked, sources), TextDelta("Done.")]
    return lambda _: [replies.pop(0)]


@pytest.mark.slow
async def test_in_the_sandbox_what_code_does_to_files_gets_its_recorded_answers(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    user = FixedPermissions([PermissionAnswer(outcome="allowed")] * 40)
    settings: dict[str, object] = {"sandbox": "required"}
    model = AnsweringModel(replying(*IN_SANDBOX))
    async with sessions_of(tmp_path / "state", model=model, settings=settings) as sessions:
        session = await sessions.create(str(project))
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
        assert not (project / "d").exists()
        asked = len(user.questions)
        for source in ("import os, pathlib, shutil; x = 2 - 1", "import os, pathlib, shutil; x = 3 - 2"):
            statuses, differences = await outcome(session, 1, source)
            assert (statuses, differences) == (["ok"] * 5, [])
            assert list(project.iterdir()) == []
        statuses, differences = await outcome(session, 2, "p = 3; os.mkdir('other')")
        assert statuses[0] == "error"
        assert list(project.iterdir()) == []
        assert not any(isinstance(each.subject, FileSubject | TreeSubject) for each in user.questions[asked:])
