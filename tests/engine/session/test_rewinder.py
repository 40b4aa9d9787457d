"""Going back and over as a whole: conversation, namespace and files, each of which may stay."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine import Session
from engine.core.errors import InvalidRequestError
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.conversation import AgentText, ToolCall
from engine.log.events.execution import StatementOmitted
from engine.log.events.going_back import BranchCreated, HeadMoved, RewindBegun, Rewound
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import Store
from engine.session.past import rewinding
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def written(root: Path, store: Store | None = None) -> AsyncIterator[Session]:
    """A session whose statements 1 to 3 bind `n` and write it, each in another way, and each into a file of its own."""
    (root / "project").mkdir(exist_ok=True)
    async with sessions_of(root / "state", store) as sessions:
        session = await sessions.create(str(root / "project"))
        for n, source in enumerate(
            (
                "w = write('a.txt', f'{n}')",
                "with open('a.txt', 'w') as f: w = f.write(f'{n}')",
                "from pathlib import Path; w = Path('a.txt').write_text(f'{n}')",
            ),
            start=1,
        ):
            finished = await session.cell(f"n = {n}\n{source}\nw = write(f'only-{{n}}', 'x')")
            assert finished.exception is None, finished.exception
        yield session


def files(session: Session) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(Path(session.cwd).iterdir())}


async def n(session: Session) -> str | None:
    return (await session.cell("n")).value


async def said(session: Session, text: str) -> str:
    await session.accept(text).end()
    return [event.text for event in session.path if isinstance(event, AgentText)][-1]


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


def begun_at(session: Session) -> int:
    return next(event.seq for event in session.events if isinstance(event, RewindBegun))


AFTER = [
    {},
    {"a.txt": "1", "only-1": "x"},
    {"a.txt": "2", "only-1": "x", "only-2": "x"},
    {"a.txt": "3", "only-1": "x", "only-2": "x", "only-3": "x"},
]


async def test_conversation_namespace_and_files_go_back_together_and_over_again(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        assert files(session) == AFTER[3]
        assert await said(session, "/rewind 1") == (
            "This is now branch `b1`, with 1 statement; the namespace is rebuilt when it is needed next. "
            "3 files went back."
        )
        assert (files(session), await n(session)) == (AFTER[1], "1")
        ended = await session.rewind(0)
        assert ended is not None
        assert [Path(file.path).name for file in ended.restored] == ["a.txt", "only-1"]
        assert files(session) == AFTER[0]
        await session.switch("main")
        assert (files(session), await n(session)) == (AFTER[3], "3")
        await session.switch("b1")
        assert files(session) == AFTER[1]
        await session.cell("w = write('a.txt', 'of b1')")
        await session.switch("main")
        assert (files(session), await n(session)) == (AFTER[3], "3")
        await session.switch("b1")
        assert files(session) == {**AFTER[1], "a.txt": "of b1"}
        assert not cycles_of(session.path).anomalies


WAYS = [
    "w = write('{}', 'x')",
    "with open('{}', 'w') as f: w = f.write('x')",
    "from pathlib import Path; w = Path('{}').write_text('x')",
]


@pytest.mark.parametrize("way", WAYS, ids=["tool", "open", "own code"])
@pytest.mark.parametrize("before", [None, "as it was"])
async def test_permissions_that_the_user_changes_in_between_are_a_conflict(
    tmp_path: Path, way: str, before: str | None
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("mine", "theirs"):
        if before is not None:
            (project / name).write_text(before)
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(project))
        for name in ("mine", "theirs"):
            finished = await session.cell(way.format(name))
            assert finished.exception is None, finished.exception
        (project / "mine").chmod(0o444)
        ended = await session.rewind(0)
        assert ended is not None
        assert [(Path(file.path).name, file.reason) for file in ended.left] == [
            ("mine", "its permissions have changed since the session last wrote it: 644 -> 444")
        ]
        assert [Path(file.path).name for file in ended.restored] == ["theirs"]
        assert stat.S_IMODE((project / "mine").stat().st_mode) == 0o444
        wanted = {"mine": "x"} if before is None else {"mine": "x", "theirs": before}
        assert files(session) == wanted


@pytest.mark.parametrize("way", WAYS, ids=["tool", "open", "own code"])
@pytest.mark.parametrize("before", [None, 0o640])
async def test_permissions_that_a_statement_has_set_are_undone_with_what_it_wrote(
    tmp_path: Path, way: str, before: int | None
) -> None:
    path = tmp_path / "project" / "a"
    path.parent.mkdir()
    if before is not None:
        path.write_text("as it was")
        path.chmod(before)
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(path.parent))
        finished = await session.cell(f"{way.format('a')}\nimport os\nos.chmod('a', 0o600)")
        assert finished.exception is None, finished.exception
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ended = await session.rewind(0)
        assert ended is not None
        assert not ended.left
        assert path.exists() == (before is not None)
        if before is not None:
            assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("as it was", before)


SETTINGS = [
    "os.chmod('a', 0o755)",
    "os.chmod(os.path.abspath('a'), 0o755)",
    "from pathlib import Path; Path('a').chmod(0o755)",
    "f = open('a'); os.fchmod(f.fileno(), 0o755)",
]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("way", WAYS, ids=["tool", "open", "own code"])
async def test_permissions_that_a_later_statement_has_set_are_the_sessions(
    tmp_path: Path, way: str, setting: str
) -> None:
    path = tmp_path / "project" / "a"
    path.parent.mkdir()
    path.write_text("as it was")
    path.chmod(0o640)
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(path.parent))
        for source in (way.format("a"), f"import os\n{setting}"):
            finished = await session.cell(source)
            assert finished.exception is None, finished.exception
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
        calls = [event.arguments for event in session.events if isinstance(event, ToolCall) and event.tool == "chmod"]
        assert calls == [{"path": str(path), "mode": 0o755}]
        ended = await session.rewind(0)
        assert ended is not None
        assert not ended.left
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("as it was", 0o640)


async def test_permissions_that_the_user_changes_after_a_statement_has_set_them_are_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "project" / "a"
    path.parent.mkdir()
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(path.parent))
        await session.cell("import os\nw = write('a', 'x')\nos.chmod('a', 0o755)")
        path.chmod(0o700)
        ended = await session.rewind(0)
        assert ended is not None
        assert [file.reason for file in ended.left] == [
            "its permissions have changed since the session last wrote it: 755 -> 700"
        ]
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_the_log_says_what_is_to_be_done_first_and_how_it_ended_where_the_head_is_then(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        await session.rewind(2)
        events = session.since(begun_at(session))
        own = ["rewind_begun", "branch_created", "head_moved", "user_message", "rewound", "agent_text", "run_stop"]
        assert kinds(events) == own
        assert [event.branch_id for event in events] == ["main"] * 2 + ["b1"] * 5
        position = session.position
        await session.rewind(2)
        assert kinds(session.since(position)) == [own[1], own[2], own[3], own[5], own[6]]


async def test_a_later_live_replay_of_the_statement_is_undone_with_all_that_came_after_it(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        await session.cell("import os; where = len(os.listdir())")
        await session.replay(2, mode="live")
        assert (await session.cell("where")).value == "4"
        await session.cell("w = write('more', '')")
        await session.replay(4, mode="live")
        assert (await session.cell("where")).value == "5"
        assert "Statements 2 to 3 ran" not in await said(session, "/rewind 1")
        await session.switch("main")
        assert "Statement 2 ran again after that, which is undone, too. " in await said(session, "/rewind 2")
        await session.switch("main")
        assert "Statements 4 to 5 ran again after that" in await said(session, "/rewind 5")
        assert (await session.cell("where")).value == "4"


async def test_going_back_twice_to_a_statement_in_the_middle_of_a_run_leaves_files_as_they_are(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        await session.edit(1, "n = 9; w = write('a.txt', f'{n}')", mode="live")
        for _ in range(2):
            await session.rewind(1)
            assert (files(session)["a.txt"], await n(session)) == ("9", "9")
        await session.rewind(1)
        assert files(session)["a.txt"] == "9"


@pytest.mark.parametrize("k", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))])
async def test_files_can_stay(tmp_path: Path, k: int) -> None:
    async with written(tmp_path) as session:
        answer = await said(session, f"/rewind --keep-files {k}")
        count = {0: "4 files have been written since, and stay as they are.", 2: "2 files have been written since"}
        assert count.get(k, "No file that statements wrote has changed.") in answer
        assert files(session) == AFTER[3]
        assert not [event for event in session.events if isinstance(event, RewindBegun | Rewound)]
        # They can follow later, and the way back is to where the head was.
        assert (await session.rewind(k) is not None) == (k < 3)
        assert files(session) == AFTER[k]
        await session.switch("main", files=False)
        assert files(session) == AFTER[k]


async def test_the_conversation_can_stay(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        assert await said(session, "/rewind 1 --keep-conversation") == (
            "Statements 2 to 3 are left out, and the namespace is rebuilt when it is needed next "
            "(`/omit 2` puts one back); the conversation stays as it is. 3 files went back."
        )
        assert (files(session), await n(session)) == (AFTER[1], "1")
        assert [cell.omitted for cell in session.cells[:3]] == [False, True, True]
        assert len(session.branches) == 1
        assert not [event for event in session.events if isinstance(event, BranchCreated | HeadMoved)]
        await session.rewind(1, files=False, conversation=False)
        assert len([event for event in session.events if isinstance(event, StatementOmitted)]) == 3  # and statement 4
        await session.accept("/omit 2").end()
        assert await n(session) == "2"


async def test_a_file_that_somebody_else_has_changed_is_left_and_a_model_hears_of_it(tmp_path: Path) -> None:
    model = AnsweringModel(runs("w = write('a', '1'); w = write('b', '1')", "w = write('a', '2'); w = write('b', '2')"))
    async with sessions_of(tmp_path / "state", model=model) as sessions:
        (tmp_path / "project").mkdir()
        session = await sessions.create(str(tmp_path / "project"))
        session.set_mode("auto")
        await session.accept("go").end()
        (tmp_path / "project" / "a").write_text("by hand")
        assert (await said(session, "/rewind 1")).endswith("1 file went back, and 1 could not.")
        assert files(session) == {"a": "by hand", "b": "1"}
        await session.accept("and now?").end()
        tail = model.prompts[-1].tail
        assert f"{tmp_path}/project/a is left as it is: it has changed since the session last wrote it." in tail
        assert "Restored 1 file to what was there after statement 1" in tail


async def test_what_is_no_option_or_no_statement_changes_nothing(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        for text, answer in (
            ("/rewind 4", "There is no statement 4; they are numbered from 1 to 3."),
            ("/rewind --keep-files", "There is no statement --keep-files; they are numbered from 1 to 3."),
            ("/rewind 1 2", "`/rewind K` takes `--keep-files` and `--keep-conversation` alone, and not `2`."),
            (
                "/rewind 1 --files",
                "`/rewind K` takes `--keep-files` and `--keep-conversation` alone, and not `--files`.",
            ),
            ("/branch main --files", "`/branch NAME` takes `--keep-files` alone, and not `--files`."),
        ):
            assert await said(session, text) == answer
        with pytest.raises(InvalidRequestError):
            await session.switch("main --keep-conversation")
        assert files(session) == AFTER[3]
        assert not [event for event in session.events if isinstance(event, RewindBegun | HeadMoved)]


async def test_a_cancel_while_files_go_back_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with written(tmp_path) as session:
        await session.rewind(2)
        await session.switch("main")
        restore = rewinding.restore
        count = 0

        def restored(*arguments: Any, **options: Any) -> object:
            nonlocal count
            count += 1
            if count == 2:
                anyio.from_thread.run_sync(session.cancel)
            return restore(*arguments, **options)

        monkeypatch.setattr(rewinding, "restore", restored)
        end = await session.accept("/rewind 1").end()
        assert end.cause == "cancelled"
        assert (files(session), [row.name for row in session.branches if row.is_active]) == (AFTER[3], ["main"])
        tail = session.events[-3:]
        assert kinds(tail) == ["rewound", "user_message", "run_stop"]
        assert isinstance(tail[0], Rewound)
        assert (tail[0].cancelled, tail[0].restored) == (True, ())
        assert await n(session) == "3"
        count = 10
        await session.rewind(1)
        assert (files(session), await n(session)) == (AFTER[1], "1")


async def test_whoever_waits_and_is_cancelled_gives_the_rewind_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with written(tmp_path) as session:
        restore = rewinding.restore
        with anyio.CancelScope() as scope:

            def restored(*arguments: Any, **options: Any) -> object:
                anyio.from_thread.run_sync(scope.cancel)
                return restore(*arguments, **options)

            monkeypatch.setattr(rewinding, "restore", restored)
            await session.rewind(1)
        assert scope.cancelled_caught
        assert (files(session), len(session.branches)) == (AFTER[3], 1)


@pytest.mark.parametrize(
    ("kept", "keeps"),
    [
        (2, False),
        *(pytest.param(n, keeps, marks=pytest.mark.slow) for n in range(1, 7) for keeps in (False, True)),
    ],
)
async def test_a_kill_anywhere_in_a_rewind_is_finished_when_the_session_is_opened(
    tmp_path: Path, kept: int, keeps: bool
) -> None:
    """The log ends after each of the events that a rewind appends; the files may have gone back by then or not."""
    store = MemoryStore(FixedClock())
    async with written(tmp_path, store) as session:
        await session.rewind(1, conversation=not keeps)
        events = [event for event in session.events if event.seq < begun_at(session) + kept]
    if kept <= 1:  # the files had not gone back
        for name, text in AFTER[3].items():
            (tmp_path / "project" / name).write_text(text)
    again = MemoryStore(FixedClock())
    row = store.row(session.session_id)
    contents = [store.blob_get(digest) for digest in store.contents(session.session_id)]
    again.create(row)
    again.acquire(session.session_id, lambda seq, error: None)
    for data in contents:
        again.blob_put(data)
    for event in events:
        again.submit(session.session_id, event)
    again.release(session.session_id)
    async with sessions_of(tmp_path / "state", again) as sessions:
        session = await sessions.load(session.session_id)
        assert files(session) == AFTER[1]
        assert await n(session) == "1"
        assert [row.name for row in session.branches if row.is_active] == (["main"] if keeps else ["b1"])
        assert len([event for event in session.events if isinstance(event, Rewound)]) == 1
        assert not cycles_of(session.path).anomalies
        if not keeps:
            await session.switch("main")
            assert (files(session), await n(session)) == (AFTER[3], "3")


@pytest.mark.slow
async def test_a_kill_after_a_cancel_leaves_the_session_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(FixedClock())
    count = 0
    async with written(tmp_path, store) as session:
        restore = rewinding.restore

        def restored(*arguments: Any, **options: Any) -> object:
            nonlocal count
            count += 1
            if count == 2:
                anyio.from_thread.run_sync(session.cancel)
            if count == 3:
                raise RuntimeError("killed")
            return restore(*arguments, **options)

        monkeypatch.setattr(rewinding, "restore", restored)
        await session.accept("/rewind 1").end()
        assert [row.name for row in session.branches] == ["main"]
        assert files(session) != AFTER[3]
    monkeypatch.undo()
    async with sessions_of(tmp_path / "state", store) as sessions:
        session = await sessions.load(session.session_id)
        assert (files(session), await n(session)) == (AFTER[3], "3")
        assert [row.name for row in session.branches] == ["main"]
        assert len([event for event in session.events if isinstance(event, Rewound)]) == 1


@pytest.mark.parametrize("protected", [True, False])
async def test_a_client_gets_no_protected_file_back(tmp_path: Path, protected: bool) -> None:
    (tmp_path / "project").mkdir()
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(tmp_path / "project"))
        for text in ("old", "new"):
            finished = await session.cell(f"w = write('.envrc', {text!r}); w = write('plain', {text!r})")
            assert finished.exception is None, finished.exception
        ended = await session.rewind(1, protected=protected)
        assert ended is not None
        assert files(session) == {".envrc": "old" if protected else "new", "plain": "old"}
        assert [Path(file.path).name for file in ended.left] == ([] if protected else [".envrc"])
        (begun,) = (event for event in session.events if isinstance(event, RewindBegun))
        assert len(begun.files) == (2 if protected else 1)
